"""Three passes: the maximum, the sum, then the quotients, each reading the row again.

Passes: reads 3MN, writes MN: 4MN.
On chip: a tile of `block_size` elements, whatever N, so that any row fits. Each lane keeps the
maximum and sum of its own columns; they are combined once a pass.
Source: the textbook "safe softmax", Algorithm 2 of Milakov & Gimelshein 2018, arXiv 1805.02867.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import sympy
import torch
from typing_extensions import override

from ..device import Device
from ..kernel import Kernel, Shape, power_of_two
from ..language import LARGEST_BLOCK, jit, tl
from ..traffic import M, N, Traffic
from .operation import SOFTMAX
from .tiles import empty_result, load_tile, store_tile, too_many_rows, triton_statistics


@dataclass(frozen=True)
class ThreePass(Kernel):
    """One program per row, three loops over its tiles.

    Attributes:
        block_size: Elements of a tile.
        num_warps: Warps per program.
    """

    operation = SOFTMAX
    backend = "triton"
    dtypes = (*Kernel.dtypes, torch.float64)
    moves = Traffic(reads=3 * M * N, writes=M * N)

    block_size: Annotated[int, power_of_two(1, LARGEST_BLOCK)] = 1024
    num_warps: Annotated[int, power_of_two(1, 32)] = 4

    @override
    def unsupported(self, shape: Shape, dtype: torch.dtype, device: Device) -> str | None:
        return super().unsupported(shape, dtype, device) or too_many_rows(shape)

    @override
    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        y = empty_result(x)
        if x.numel() > 0:
            rows, cols = x.shape
            _three_pass[(rows,)](
                x,
                y,
                cols,
                x.stride(0),
                x.stride(1),
                BLOCK=self.block_size,
                STATISTICS=triton_statistics(x.dtype),
                num_warps=self.num_warps,
            )
        return y

    @override
    def on_chip_elements(self) -> sympy.Expr:
        return sympy.Integer(self.block_size)


@jit
def _three_pass(
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

    maxima = tl.full((BLOCK,), float("-inf"), STATISTICS)
    for tile in range(tiles):
        maxima = tl.maximum(maxima, load_tile(x, tile, cols, col_stride, BLOCK, STATISTICS, ""))
    # Triton's maximum passes over NaN; it comes back through the sum
    maximum = tl.max(maxima)

    sums = tl.zeros((BLOCK,), STATISTICS)
    for tile in range(tiles):
        sums += tl.exp(load_tile(x, tile, cols, col_stride, BLOCK, STATISTICS, "") - maximum)
    total = tl.sum(sums)

    for tile in range(tiles):
        values = load_tile(x, tile, cols, col_stride, BLOCK, STATISTICS, "")
        store_tile(y, tile, tl.exp(values - maximum) / total, cols, BLOCK, "")
