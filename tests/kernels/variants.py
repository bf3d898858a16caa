"""The variants under test, with tiles so small that the interpreter takes several a row."""

from __future__ import annotations

import os

import torch

from kernels.copy.copy import Copy
from kernels.copy.copy_triton import CopyTriton
from kernels.device import Device, cuda_device
from kernels.kernel import Kernel
from kernels.softmax.auto import Auto
from kernels.softmax.cluster import Cluster
from kernels.softmax.cluster_reduce import ClusterReduce
from kernels.softmax.compiled import Compiled
from kernels.softmax.cooperative import Cooperative
from kernels.softmax.fused import Fused
from kernels.softmax.fused_multirow import FusedMultirow
from kernels.softmax.fused_row import FusedRow
from kernels.softmax.hybrid import Hybrid
from kernels.softmax.naive import Naive
from kernels.softmax.naive_script import NaiveScript
from kernels.softmax.online import Online
from kernels.softmax.peers.flag_gems import FlagGems
from kernels.softmax.peers.liger import Liger
from kernels.softmax.peers.quack import Quack
from kernels.softmax.three_pass import ThreePass
from kernels.softmax.torch_softmax import TorchSoftmax

LIBRARY: tuple[Kernel, ...] = (Naive(), NaiveScript(), TorchSoftmax())
TRITON: tuple[Kernel, ...] = (
    ThreePass(block_size=16),
    Fused(),
    FusedRow(),
    Hybrid(block_size=16),
    Online(block_size=16),
    Online(block_size=16, reverse=True, evict="last_first", rows_in_flight=2),
    FusedMultirow(),
    Auto(),
)
INTERPRETED = os.environ.get("TRITON_INTERPRET", "0") not in ("", "0")
HERE = Device("cpu", "cpu") if INTERPRETED or not torch.cuda.is_available() else cuda_device(0)
# needs a Triton and a card that not every machine has
CLUSTERED = tuple(
    kernel
    for kernel in (ClusterReduce(num_ctas=2),)
    if kernel.unsupported((2, 3), torch.float32, HERE) is None
)
QUICK = LIBRARY + TRITON + CLUSTERED  # `compiled` takes seconds a shape and is tried on few
SOFTMAXES = (*QUICK, Compiled())
PEERS: tuple[Kernel, ...] = (Liger(), FlagGems(), Quack())  # of packages that may not be here
WAITING: tuple[Kernel, ...] = (
    Cluster(),
    Cooperative(),
)  # for one another, which only a card lets them
COPIES: tuple[Kernel, ...] = (Copy(), CopyTriton(block_size=16))
DTYPES = (torch.float32, torch.float16, torch.bfloat16, torch.float64)


def name(value: object) -> str:
    """A test's identifier for a kernel or dtype."""
    if isinstance(value, torch.dtype):
        return str(value).removeprefix("torch.")
    return type(value).__name__


def assert_softmax(kernel: Kernel, x: torch.Tensor) -> None:
    """Holds a variant's answer for ``x`` against float64.

    Rounding the difference max − x in the working precision moves its exponential by half a
    spacing times that difference, which is at most −log y; the answer is then rounded once more.
    """
    y = kernel(x)
    assert y.shape == x.shape
    assert y.dtype == x.dtype
    assert y.is_contiguous()
    reference = torch.softmax(x.double(), dim=1)
    assert torch.equal(y.isnan(), reference.isnan())
    by_hand = kernel.backend in ("eager", "torchscript")
    working = x.dtype if by_hand else torch.promote_types(x.dtype, torch.float32)
    difference = -reference.clamp_min(1e-300).log()
    relative = torch.finfo(working).eps * (8 + 2 * difference)
    # half a spacing, and one more for the interpreter, which cuts bfloat16 instead of rounding
    relative = relative + 1.5 * torch.finfo(x.dtype).eps
    absolute = 2 * torch.finfo(x.dtype).smallest_normal * torch.finfo(x.dtype).eps
    flushed = 2 * torch.finfo(torch.float32).tiny if x.dtype != torch.float64 else 0.0
    error = (y.double() - reference).abs()
    wrong = error > reference * relative + absolute + flushed
    assert not wrong.any(), f"off by {error[wrong].max()} where {reference[wrong][:3]} was due"
