"""The gradient of softmax in Triton: one pass where the rows of y and dy fit a tile, else two.

dx = y∘(dy − s), s = Σ y∘dy, so that s must be known before the first element is written.
Passes: one where N ≤ `block_size`: reads 2MN, writes MN: 3MN. Else two: the sum, then the answer
from the last tile to the first, which the cache still holds in part; reads 4MN, writes MN: 5MN.
On chip: one row each of y and dy, 2N elements padded to powers of two; or two tiles. Narrow rows
are taken several a program.
Source: the backward pass of `torch.softmax`; by tiles as `online`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import sympy
import torch
from typing_extensions import override

from ..kernel import Kernel, power_of_two
from ..language import jit, tl
from ..lines import Sizes, columns_of, launch_tiles, lines_of, starts
from ..traffic import BLOCK_SIZE, M, N, Traffic
from .operation import Gradient, Three

LARGEST = 1 << 15  # elements of a tile: two of them in registers are all that a block has


@dataclass(frozen=True)
class Backward(Gradient):
    """A tile of one wide row or of several narrow ones a program.

    Attributes:
        block_size: Widest row taken in one pass, and the tile of wider ones, in elements.
        num_warps: Warps per program; None takes one for 512 elements of a tile, 4 to 32.
    """

    dtypes = (*Kernel.dtypes, torch.float64)
    moves = Traffic(
        reads=sympy.Piecewise((2 * M * N, N <= BLOCK_SIZE), (4 * M * N, True)), writes=M * N
    )
    on_chip = sympy.Piecewise((2 * N, N <= BLOCK_SIZE), (2 * BLOCK_SIZE, True))
    row_a_program = True

    block_size: Annotated[int, power_of_two(1, LARGEST)] = 16384
    num_warps: Annotated[int | None, power_of_two(1, 32)] = None

    @override
    def into(self, tensors: Three, dim: int = 1, temperature: float = 1.0) -> None:
        """See `Gradient`; dimensions before and after ``dim`` can be merged into one each."""
        launch_tiles(_backward, tensors, dim, temperature, self.block_size, self.num_warps)


@jit
def _backward(
    y: tl.tensor,
    dy: tl.tensor,
    dx: tl.tensor,
    y_strides: tl.tuple,
    dy_strides: tl.tuple,
    dx_strides: tl.tuple,
    sizes: Sizes,
    inverse: tl.float64,  # a plain float would be float32
    BLOCK: tl.constexpr,
    WIDTH: tl.constexpr,
    WHOLE: tl.constexpr,
) -> None:
    STATISTICS: tl.constexpr = tl.float64 if y.dtype.element_ty == tl.float64 else tl.float32
    dtype: tl.constexpr = dx.dtype.element_ty
    line, inside = lines_of(WIDTH, sizes)
    y, y_col = starts(y, line, sizes, y_strides), y_strides[1]
    dy, dy_col = starts(dy, line, sizes, dy_strides), dy_strides[1]
    dx, dx_col = starts(dx, line, sizes, dx_strides), dx_strides[1]
    scale = tl.full((), inverse, tl.float64).to(STATISTICS)
    if WHOLE:
        columns, there = columns_of(0, inside, sizes, BLOCK)
        p = tl.load(y + columns * y_col, there, 0.0).to(STATISTICS)
        g = tl.load(dy + columns * dy_col, there, 0.0).to(STATISTICS)
        total = tl.sum(p * g, axis=0)
        gradient = p * (g - total[None, :]) * scale
        tl.store(dx + columns * dx_col, gradient.to(dtype), there)
    else:
        tiles = tl.cdiv(sizes.cols, BLOCK)
        total = tl.zeros((WIDTH,), STATISTICS)
        for tile in range(tiles):
            columns, there = columns_of(tile, inside, sizes, BLOCK)
            p = tl.load(y + columns * y_col, there, 0.0).to(STATISTICS)
            g = tl.load(dy + columns * dy_col, there, 0.0).to(STATISTICS)
            total += tl.sum(p * g, axis=0)
        for index in range(tiles):  # what was read last is still in the cache
            columns, there = columns_of(tiles - 1 - index, inside, sizes, BLOCK)
            p = tl.load(y + columns * y_col, there, 0.0).to(STATISTICS)
            g = tl.load(dy + columns * dy_col, there, 0.0).to(STATISTICS)
            gradient = p * (g - total[None, :]) * scale
            tl.store(dx + columns * dx_col, gradient.to(dtype), there)
