"""Hybrid softmax: one pass where the row fits `block_size`, three passes where it does not.

Passes: one where N ≤ `block_size` (`fused_row`: 2MN), else three (`three_pass`: 4MN).
On chip: the row, or a tile of `block_size` elements.
Source: "Triton Kernels - Fused Softmax" (2025), whose own block always held the row, so that its
tiled path never ran.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import sympy
import torch
from typing_extensions import override

from ..device import Device
from ..kernel import Kernel, Shape, power_of_two
from ..language import LARGEST_BLOCK
from ..traffic import N, Traffic
from .fused_row import FusedRow, warps_by_width
from .operation import SOFTMAX
from .three_pass import ThreePass


@dataclass(frozen=True)
class Hybrid(Kernel):
    """`fused_row` up to `block_size` columns, `three_pass` beyond.

    Attributes:
        block_size: Widest row taken in one pass, and the tile of wider ones, in elements.
        num_warps: Warps per program; None takes 4, 8 or 16, by the width of a block.
    """

    operation = SOFTMAX
    backend = "triton"
    dtypes = (*Kernel.dtypes, torch.float64)

    block_size: Annotated[int, power_of_two(1, LARGEST_BLOCK)] = 4096
    num_warps: Annotated[int | None, power_of_two(1, 32)] = None

    @override
    def unsupported(self, shape: Shape, dtype: torch.dtype, device: Device) -> str | None:
        reason = super().unsupported(shape, dtype, device)
        return reason or self._path(shape[1]).unsupported(shape, dtype, device)

    @override
    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return self._path(x.shape[1])(x)

    @override
    def traffic(self) -> Traffic:
        fast, tiled = FusedRow().traffic(), ThreePass().traffic()
        return Traffic(
            reads=self._either(fast.reads, tiled.reads),
            writes=self._either(fast.writes, tiled.writes),
        )

    @override
    def on_chip_elements(self) -> sympy.Expr:
        return self._either(N, sympy.Integer(self.block_size))

    def _path(self, cols: int) -> FusedRow | ThreePass:
        if cols <= self.block_size:
            return FusedRow(num_warps=self.num_warps)
        warps = self.num_warps or warps_by_width(self.block_size)
        return ThreePass(self.block_size, warps)

    def _either(self, fast: sympy.Expr, tiled: sympy.Expr) -> sympy.Expr:
        return sympy.Piecewise((fast, sympy.Le(N, self.block_size)), (tiled, True))
