"""Naive softmax: five PyTorch operations, each a pass of its own over global memory.

Passes: max (reads MN, writes M), subtract (MN+M, MN), exp (MN, MN), sum (MN, M),
divide (MN+M, MN): 8MN + 4M in all. That count leaves out the M int64 indices which PyTorch's
max writes beside the maxima.
On chip: one element; no operation remembers what another has loaded.
Statistics: the sum is kept in float32, or float64 for float64; the rest in the input's dtype, as
written by hand.
Source: the baseline of every fused-softmax tutorial, Triton's tutorial 02 among them.
"""

from __future__ import annotations

from dataclasses import dataclass

import sympy
import torch
from typing_extensions import override

from ..kernel import Kernel
from ..traffic import M, N, Traffic
from .operation import SOFTMAX
from .tiles import statistics_dtype


def five_operations(x: torch.Tensor, statistics: torch.dtype) -> torch.Tensor:
    """Softmax of the rows of ``x``, shape (M, N) with N > 0; ``statistics`` is the sum's dtype."""
    maximum = x.max(dim=1)[0]
    shifted = x - maximum[:, None]
    exponentials = torch.exp(shifted)
    total = exponentials.sum(dim=1, dtype=statistics)
    # `out` keeps a 16-bit quotient 16 bits wide: a float32 one would be a sixth pass
    y = torch.empty_like(x, memory_format=torch.contiguous_format)
    return torch.divide(exponentials, total[:, None], out=y)


@dataclass(frozen=True)
class Naive(Kernel):
    """Eager PyTorch, operation by operation. It has no tunables."""

    operation = SOFTMAX
    backend = "eager"
    dtypes = (*Kernel.dtypes, torch.float64)
    moves = Traffic(reads=5 * M * N + 2 * M, writes=3 * M * N + 2 * M)
    on_chip = sympy.Integer(1)

    @override
    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        if x.numel() == 0:
            return torch.empty_like(x)
        return five_operations(x, statistics_dtype(x.dtype))
