"""Kernels of public libraries, called as they publish them.

A library is imported only where one of its functions is to run.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any, ClassVar

import torch
from typing_extensions import override

from .device import Device
from .kernel import Kernel, Shape, too_many

Refused = Callable[[Shape, torch.dtype, Device], str | None]
VECTOR_BYTES = 16  # one load or store of a thread of QuACK's
THREADS = 256  # of a block of QuACK's, all on one row, where the row is wider than 16384
SCRATCH_BYTES = 16 * 8 * 8 + 8  # a (m, d) for each warp of QuACK's cluster, and a barrier
WIDEST_OF_LIGER = 65536  # MAX_FUSED_SIZE of liger_kernel.ops.utils.calculate_settings


@dataclass(frozen=True)
class Library:
    """A public library of kernels."""

    packages: tuple[str, ...]  # its distributions, see `Kernel`
    backend: str  # its code generator, see `Kernel`
    refused: Refused  # one sentence that says why a shape, dtype or device cannot run; else None


class Peer(Kernel):
    """A public library's kernel; see `Kernel`."""

    library: ClassVar[Library]
    published: ClassVar[str]  # its function, as "module:name"
    # Calls that function, its first argument, with the inputs, and gives the outputs
    called: ClassVar[Callable[..., Any]] = staticmethod(lambda function, *inputs: function(*inputs))

    def __init_subclass__(cls) -> None:
        cls.packages, cls.backend = cls.library.packages, cls.library.backend

    @staticmethod
    def refused(shape: Shape, dtype: torch.dtype, device: Device, /) -> str | None:
        """Further limits of this kernel, like those of `Library`."""
        return None

    def function(self, *inputs: Any, **_: Any) -> Callable[..., Any]:
        """What runs for inputs like these, of at least one element each."""
        module, name = self.published.split(":")
        return partial(type(self).called, getattr(import_module(module), name))

    @override
    def limits(self, shape: Shape, dtype: torch.dtype, device: Device) -> str | None:
        """See `Kernel`: those of the library, of the function, and of the variant's base."""
        point = shape, dtype, device
        return self.library.refused(*point) or self.refused(*point) or super().limits(*point)

    @override
    def prepare(self, *inputs: torch.Tensor) -> Callable[..., Any]:
        """See `Kernel`: the library does its one-time lookups now."""
        if all(x.numel() > 0 for x in inputs):
            return self.function(*inputs)
        return self._empty

    def _empty(self, *inputs: torch.Tensor) -> Any:
        shape, dtype = self.operation.point_of(inputs)
        layout = self.operation.layout(self.operation.outputs, shape, dtype)
        made = [torch.empty(size, dtype=own, device=inputs[0].device) for size, own in layout]
        return made[0] if len(made) == 1 else tuple(made)


def _in_clusters(whose: str, shape: Shape, dtype: torch.dtype, device: Device) -> str | None:
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
        return f"{whose} takes rows of a multiple of {vector} {name}, not of {shape[1]}"
    return None


def row_of_quack(matrices: int, shape: Shape, dtype: torch.dtype, device: Device, /) -> str | None:
    """The limit of QuACK's kernels that hold a row of so many matrices in a cluster.

    Narrower rows take smaller clusters, and less than any device with clusters has.
    """
    tile = THREADS * VECTOR_BYTES // dtype.itemsize
    cluster = 8 if device.capability is not None and device.capability[0] == 12 else 16
    needed = matrices * -(-shape[1] // (tile * cluster)) * tile * dtype.itemsize + SCRATCH_BYTES
    room = device.shared_bytes_per_block
    if room is None or needed <= room:
        return None
    return (
        f"a row of {shape[1]} takes {needed} bytes of shared memory in each block of "
        f"QuACK's largest cluster, and this device gives a block {room}"
    )


def row_of_liger(
    shape: Shape, dtype: torch.dtype, device: Device, widest: int = WIDEST_OF_LIGER
) -> str | None:
    """The limit of Liger's kernels that hold a row, by default in one block."""
    if shape[1] > widest:
        return f"Liger takes rows of at most {widest}, not {shape[1]}"
    return None


def _on_cuda(shape: Shape, dtype: torch.dtype, device: Device) -> str | None:
    if device.kind != "cuda":
        return "needs a CUDA device"
    return too_many(shape[0])


QUACK = Library(("quack-kernels", "nvidia-cutlass-dsl"), "cute", partial(_in_clusters, "QuACK"))
LIGER = Library(("liger-kernel",), "triton", lambda shape, *_: too_many(shape[0]))
LIGER_CUTE = Library(("liger-kernel", "nvidia-cutlass-dsl"), "cute", partial(_in_clusters, "Liger"))
FLAG_GEMS = Library(("flag-gems",), "triton", _on_cuda)
FLA = Library(("fla-core",), "triton", _on_cuda)
TRL = Library(("trl",), "triton", _on_cuda)
