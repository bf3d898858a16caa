"""Copy by PyTorch: the roof. No kernel that reads and writes every element can be much faster.

Passes: one; reads MN, writes MN: 2MN.
On chip: one element.
Source: `Tensor.copy_`, for a contiguous input the driver's own device-to-device copy. Captured in a
CUDA graph it becomes a memory-copy node instead, which an H200 runs at two thirds of the speed for
a matrix of half a gigabyte and more: under `timing=graph` the roof is then `copy_triton`.
"""

from __future__ import annotations

from dataclasses import dataclass

import sympy
import torch
from typing_extensions import override

from ..kernel import Kernel
from ..traffic import M, N, Traffic
from .operation import COPY


@dataclass(frozen=True)
class Copy(Kernel):
    """`Tensor.copy_` into a new tensor. It has no tunables."""

    operation = COPY
    backend = "torch"
    dtypes = (*Kernel.dtypes, torch.float64)
    moves = Traffic(reads=M * N, writes=M * N)
    on_chip = sympy.Integer(1)

    @override
    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return torch.empty_like(x, memory_format=torch.contiguous_format).copy_(x)
