"""The matrix product of PyTorch: the roof of multiplying, by the library behind it.

Passes: nominally each operand once, and the product: (2N + E)·E elements.
On chip: nominally one element.
Source: `torch.matmul`, on an NVIDIA card cuBLAS.
"""

from __future__ import annotations

from dataclasses import dataclass

import sympy
import torch
from typing_extensions import override

from ..kernel import Kernel
from ..traffic import N, Traffic
from .operation import EDGE, MATMUL


@dataclass(frozen=True)
class Matmul(Kernel):
    """`torch.matmul`. It has no tunables."""

    operation = MATMUL
    backend = "torch"
    moves = Traffic(reads=2 * N * EDGE, writes=EDGE * EDGE)
    on_chip = sympy.Integer(1)

    @override
    def __call__(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.matmul(a, b)
