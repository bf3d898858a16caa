"""Addition by PyTorch: the roof of operations that read two matrices and write one.

Passes: one; reads 2MN, writes MN: 3MN.
On chip: two elements.
Source: `torch.add`.
"""

from __future__ import annotations

from dataclasses import dataclass

import sympy
import torch
from typing_extensions import override

from ..kernel import Kernel
from ..traffic import M, N, Traffic
from .operation import ADD


@dataclass(frozen=True)
class Add(Kernel):
    """`torch.add` of the two matrices. It has no tunables."""

    operation = ADD
    backend = "torch"
    dtypes = (*Kernel.dtypes, torch.float64)
    moves = Traffic(reads=2 * M * N, writes=M * N)
    on_chip = sympy.Integer(2)

    @override
    def __call__(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.add(a, b).contiguous()
