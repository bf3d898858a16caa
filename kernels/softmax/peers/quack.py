"""QuACK's softmax, a peer: CuTe DSL, a row spread over a cluster of up to sixteen blocks.

Passes: one, 2MN. Each block takes its part of the row through shared memory into registers; the
blocks of a cluster exchange their maxima and sums through distributed shared memory.
On chip: the row, N elements, over the shared memory and registers of its cluster.
The function is `quack.softmax.softmax_fwd`, the forward function of the public `softmax`,
without the bookkeeping for gradients. It takes rows that start on 16 bytes and lie in one piece;
others are copied first, here. It launches on PyTorch's current stream.
A warp whose columns all lie beyond the row takes exp(−∞ − (−∞)), NaN, and the row's sum takes it
over. By the sources that is so where the last block of a cluster has at most 1792 columns, of 16
bit: in rows of 65544 to 73472, 81928 to 87808, 98312 to 102144, 114696 to 116480, 131080 to 155392
and some beyond. Seen at 6000×151936 bfloat16, Qwen's vocabulary. The gate calls that incorrect.
Source: QuACK, https://github.com/Dao-AILab/quack, `quack/softmax.py` and `quack/reduction_base.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec

import torch
from typing_extensions import override

from ...device import Device
from ...kernel import Shape
from ...peer import Peer
from ...traffic import M, N, Traffic
from ..operation import SOFTMAX

VECTOR_BYTES = 16  # one load or store of a thread
THREADS = 256  # of a block, all on one row, where the row is wider than 16384
SCRATCH_BYTES = 16 * 8 * 8 + 8  # a (m, d) for each warp of the cluster, and a barrier


@dataclass(frozen=True)
class Quack(Peer):
    """The forward softmax of the package quack-kernels. It chooses cluster and threads itself."""

    operation = SOFTMAX
    backend = "cute"
    packages = ("quack-kernels", "nvidia-cutlass-dsl")
    moves = Traffic(reads=M * N, writes=M * N)
    on_chip = N

    @override
    def unsupported(self, shape: Shape, dtype: torch.dtype, device: Device) -> str | None:
        """See `Kernel`; also cards without clusters, and widths that the library refuses."""
        return super().unsupported(shape, dtype, device) or refused(shape, dtype, device)

    @override
    def function(self, x: torch.Tensor) -> Callable[[torch.Tensor], torch.Tensor]:
        from quack.softmax import softmax_fwd

        forward: Callable[[torch.Tensor], torch.Tensor] = softmax_fwd
        starts = x.data_ptr() | x.stride(0) * x.itemsize
        if x.stride(1) == 1 and starts % VECTOR_BYTES == 0:
            return forward
        # clone, for a contiguous tensor may also start in between
        return lambda x: forward(x.clone(memory_format=torch.contiguous_format))


def refused(shape: Shape, dtype: torch.dtype, device: Device, matrices: int = 1) -> str | None:
    """Why QuACK's kernel of so many input matrices cannot run, in one sentence, or None."""
    if find_spec("cutlass") is None:
        return "needs the folder nvidia_cutlass_dsl/dsl_packages on PYTHONPATH, for cutlass"
    if device.capability is None:
        return "needs a CUDA device"
    if device.capability < (9, 0):
        has = ".".join(map(str, device.capability))
        return f"needs compute capability 9.0, for clusters; this device has {has}"
    vector = VECTOR_BYTES // dtype.itemsize
    if shape[1] % vector:
        name = str(dtype).removeprefix("torch.")
        return f"QuACK takes rows of a multiple of {vector} {name}, not of {shape[1]}"
    room = device.shared_bytes_per_block
    needed = _shared_bytes(shape[1], dtype, device.capability[0], matrices)
    if room is not None and needed > room:
        return (
            f"a row of {shape[1]} takes {needed} bytes of shared memory in each block of "
            f"QuACK's largest cluster, and this device gives a block {room}"
        )
    return None


def _shared_bytes(cols: int, dtype: torch.dtype, major: int, matrices: int) -> int:
    """Shared memory of a block for a row so wide that it takes the largest cluster, bytes.

    Narrower rows, which take smaller clusters, need less than any device has that knows clusters.
    """
    tile = THREADS * VECTOR_BYTES // dtype.itemsize
    cluster = 8 if major == 12 else 16
    return matrices * -(-cols // (tile * cluster)) * tile * dtype.itemsize + SCRATCH_BYTES
