"""Addition by Triton: `copy_triton` with a second matrix to read.

Passes: one; reads 2MN, writes MN: 3MN.
On chip: two tiles of `block_size` elements.
Source: Triton's tutorial 01 (vector addition).
"""

from __future__ import annotations

from dataclasses import dataclass

import sympy
import torch
from typing_extensions import override

from ..mover import Mover
from ..traffic import M, N, Traffic
from .operation import ADD


@dataclass(frozen=True)
class AddTriton(Mover):
    """One program a tile of each matrix; see `Mover`."""

    operation = ADD
    moves = Traffic(reads=2 * M * N, writes=M * N)

    @override
    def __call__(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return self.move(a, b)

    @override
    def on_chip_elements(self) -> sympy.Expr:
        return 2 * super().on_chip_elements()
