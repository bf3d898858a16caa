"""The variants under test, in tiles that the interpreter takes several of a row, and matrices."""

from __future__ import annotations

import os

import torch

from kernels.device import Device, cuda_device
from kernels.kernel import Kernel
from kernels.roofs.library import Copy
from kernels.roofs.mover import CopyTriton
from kernels.softmax.auto import Auto
from kernels.softmax.fused import Fused
from kernels.softmax.fused_multirow import FusedMultirow
from kernels.softmax.hybrid import FusedRow, Hybrid, ThreePass
from kernels.softmax.library import Compiled, CompiledSoftmax, Naive, NaiveScript, TorchSoftmax
from kernels.softmax.online import Online
from kernels.softmax.peers import FlagGems, Helion, Liger, Quack

INTERPRETED = os.environ.get("TRITON_INTERPRET", "0") not in ("", "0")
HERE = Device("cpu", "cpu") if INTERPRETED or not torch.cuda.is_available() else cuda_device(0)
# `compiled` takes seconds a shape and is tried on few
QUICK: tuple[Kernel, ...] = (
    *(Naive(), NaiveScript(), TorchSoftmax()),
    *(ThreePass(block_size=16), Fused(), FusedRow(), Hybrid(block_size=16), Online(block_size=16)),
    *(Online(block_size=16, reverse=True, evict="last_first"), FusedMultirow(), Auto()),
)
SOFTMAXES = (*QUICK, Compiled(), CompiledSoftmax())
PEERS: tuple[Kernel, ...] = (Liger(), FlagGems(), Quack(), Helion())  # that may not be here
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


LAYOUTS = (
    *("contiguous", "padded rows", "transposed", "every other column", "one row repeated"),
    "off a vector",
)


def lay_out(x: torch.Tensor, layout: str) -> torch.Tensor:
    """The values of ``x``, shape (M, N), with other strides."""
    rows, cols = x.shape
    if layout == "padded rows":
        wide = torch.full((rows, cols + 3), torch.nan, dtype=x.dtype, device=x.device)
        wide[:, :cols] = x
        return wide[:, :cols]
    if layout == "transposed":
        return x.t().contiguous().t()
    if layout == "every other column":
        wide = torch.full((rows, 2 * cols), torch.nan, dtype=x.dtype, device=x.device)
        wide[:, ::2] = x
        return wide[:, ::2]
    if layout == "one row repeated":
        return x[:1].expand(rows, cols)
    if layout == "off a vector":
        storage = torch.full((x.numel() + 1,), torch.nan, dtype=x.dtype, device=x.device)
        return storage[1:].view(rows, cols).copy_(x)
    return x


def extremes() -> torch.Tensor:
    """Rows of 40, which tiles of 16 cut at 16 and 32."""
    x = torch.randn(10, 40, generator=torch.Generator().manual_seed(0))
    x[0, :35] = -torch.inf  # two tiles of nothing before the first value
    x[1, 3:] = -torch.inf
    x[2] = -torch.inf
    x[3, 20] = torch.nan
    x[4] = torch.nan
    x[5] = -torch.inf
    x[5, 39] = torch.nan
    x[6, 30] = torch.inf
    x[7, 0] = torch.inf
    x[7, 39] = torch.inf
    x[8, :16] = -torch.inf
    x[8, 20] = torch.nan
    x[9] = 0.0
    return x
