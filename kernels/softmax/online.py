"""Online softmax in two passes: maximum and sum together, then the quotients.

Passes: reads 2MN, writes MN: 3MN. The first pass keeps a running maximum m and a running sum d,
and whenever a tile C raises the maximum, rescales what was summed so far:
m' = max(m, max C), d' = d·exp(m − m') + Σ exp(C − m').
On chip: a tile of `block_size` elements, whatever N, so that any row fits.
Source: Milakov & Gimelshein 2018, arXiv 1805.02867, Algorithm 3, tile by tile as in flash
attention (Dao et al. 2022, arXiv 2205.14135).
"""

from __future__ import annotations

from dataclasses import dataclass

import sympy
import torch

from kernels.device import Device
from kernels.kernel import Kernel, Shape
from kernels.language import LARGEST_BLOCK, jit, tl
from kernels.softmax.operation import SOFTMAX
from kernels.softmax.statistics import check_accumulate
from kernels.softmax.tiles import (
    empty_result,
    load_tile,
    store_tile,
    too_many_rows,
    triton_statistics,
)
from kernels.traffic import M, N, Traffic
from kernels.tunables import check_power_of_two


@dataclass(frozen=True)
class Online(Kernel):
    """One program a row, two loops over its tiles.

    Attributes:
        block_size: Elements of a tile.
        num_warps: Warps a program.
        accumulate: dtype of the statistics, ``"float32"`` or ``"float64"``.
    """

    operation = SOFTMAX
    backend = "triton"
    dtypes = (*Kernel.dtypes, torch.float64)

    block_size: int = 1024
    num_warps: int = 4
    accumulate: str = "float32"

    def __post_init__(self) -> None:
        check_power_of_two("block_size", self.block_size, 1, LARGEST_BLOCK)
        check_power_of_two("num_warps", self.num_warps, 1, 32)
        check_accumulate(self.accumulate)

    def unsupported(self, shape: Shape, dtype: torch.dtype, device: Device) -> str | None:
        """See `Kernel`."""
        return super().unsupported(shape, dtype, device) or too_many_rows(shape)

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """See `Kernel`."""
        y = empty_result(x)
        if x.numel() > 0:
            rows, cols = x.shape
            _online[(rows,)](
                x,
                y,
                cols,
                x.stride(0),
                x.stride(1),
                BLOCK=self.block_size,
                STATISTICS=triton_statistics(x.dtype, self.accumulate),
                num_warps=self.num_warps,
            )
        return y

    def traffic(self) -> Traffic:
        """See `Kernel`."""
        return Traffic(reads=2 * M * N, writes=M * N)

    def on_chip_elements(self) -> sympy.Expr:
        """See `Kernel`."""
        return sympy.Integer(self.block_size)


@jit
def _online(
    x: tl.tensor,
    y: tl.tensor,
    cols: tl.tensor,
    row_stride: tl.tensor,
    col_stride: tl.tensor,
    BLOCK: tl.constexpr,
    STATISTICS: tl.constexpr,
) -> None:
    row = tl.program_id(0).to(tl.int64)
    x += row * row_stride
    y += row * cols
    tiles = tl.cdiv(cols, BLOCK)

    maximum = tl.full((), float("-inf"), STATISTICS)
    total = tl.full((), 0.0, STATISTICS)
    for tile in range(tiles):
        values = load_tile(x, tile, cols, col_stride, BLOCK, STATISTICS)
        raised = tl.maximum(maximum, tl.max(values))
        # As long as all is -inf, -inf - -inf would be NaN: any finite shift gives the sum 0
        shift = tl.where(raised == float("-inf"), 0.0, raised)
        total = total * tl.exp(maximum - shift) + tl.sum(tl.exp(values - shift))
        maximum = raised

    for tile in range(tiles):
        values = load_tile(x, tile, cols, col_stride, BLOCK, STATISTICS)
        store_tile(y, tile, tl.exp(values - maximum) / total, cols, BLOCK)
