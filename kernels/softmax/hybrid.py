"""Hybrid softmax: one pass where the row fits `block_size`, three passes where it does not.

Passes: one where N ≤ `block_size` (`fused_row`: 2MN), else three (`three_pass`: 4MN).
On chip: the row, or a tile of `block_size` elements.
Source: "Triton Kernels - Fused Softmax" (2025), whose own block always held the row, so that its
tiled path never ran.
"""

from __future__ import annotations

from dataclasses import dataclass

import sympy
import torch

from kernels.device import Device
from kernels.kernel import Kernel, Shape
from kernels.language import LARGEST_BLOCK
from kernels.softmax.fused_row import FusedRow, warps_by_width
from kernels.softmax.operation import SOFTMAX
from kernels.softmax.statistics import check_accumulate
from kernels.softmax.three_pass import ThreePass
from kernels.traffic import N, Traffic
from kernels.tunables import check_power_of_two


@dataclass(frozen=True)
class Hybrid(Kernel):
    """`fused_row` up to `block_size` columns, `three_pass` beyond.

    Attributes:
        block_size: Widest row taken in one pass, and the tile of wider ones, in elements.
        num_warps: Warps a program; None takes 4, 8 or 16 by the width of what it holds.
        accumulate: dtype of the statistics, ``"float32"`` or ``"float64"``.
    """

    operation = SOFTMAX
    backend = "triton"
    dtypes = (*Kernel.dtypes, torch.float64)

    block_size: int = 4096
    num_warps: int | None = None
    accumulate: str = "float32"

    def __post_init__(self) -> None:
        check_power_of_two("block_size", self.block_size, 1, LARGEST_BLOCK)
        if self.num_warps is not None:
            check_power_of_two("num_warps", self.num_warps, 1, 32)
        check_accumulate(self.accumulate)

    def unsupported(self, shape: Shape, dtype: torch.dtype, device: Device) -> str | None:
        """See `Kernel`."""
        reason = super().unsupported(shape, dtype, device)
        return reason or self._path(shape[1]).unsupported(shape, dtype, device)

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """See `Kernel`."""
        return self._path(x.shape[1])(x)

    def traffic(self) -> Traffic:
        """See `Kernel`."""
        fast, tiled = FusedRow().traffic(), ThreePass().traffic()
        return Traffic(
            reads=self._either(fast.reads, tiled.reads),
            writes=self._either(fast.writes, tiled.writes),
        )

    def on_chip_elements(self) -> sympy.Expr:
        """See `Kernel`."""
        return self._either(N, sympy.Integer(self.block_size))

    def _path(self, cols: int) -> Kernel:
        if cols <= self.block_size:
            return FusedRow(num_warps=self.num_warps, accumulate=self.accumulate)
        warps = self.num_warps or warps_by_width(self.block_size)
        return ThreePass(self.block_size, warps, self.accumulate)

    def _either(self, fast: sympy.Expr, tiled: sympy.Expr) -> sympy.Expr:
        return sympy.Piecewise((fast, sympy.Le(N, self.block_size)), (tiled, True))
