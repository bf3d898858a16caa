"""Softmax along any dimension, with a temperature, from one dtype to another.

`softmax(x)` calls it where no variant applies: variants take only rows of a matrix.

Passes: one where a line fits a tile (2MN), else two, as `online` (3MN).
On chip: a tile of `MOST` elements in the dtype of the statistics.
Source: `online` and `fused_row`, a tile of several lines at a time (see `kernels.lines`).
"""

from __future__ import annotations

import torch

from ..language import jit, tl
from ..lines import launch_tiles, load_lines, starts, store_lines
from .tiles import triton_statistics

MOST = 16384  # elements of a tile: 32 per thread, of 16 warps


def along(x: torch.Tensor, y: torch.Tensor, dim: int, temperature: float) -> None:
    """Writes softmax(x / temperature) along ``dim`` into ``y``.

    Args:
        x: Any shape with at least one dimension and one element. Its dimensions before ``dim``, and
            those after it, can be merged into one.
        y: The same shape, any floating-point dtype; contiguous.
        dim: The dimension that is normalised, not negative.
        temperature: Positive.
    """
    launch_tiles(_along, (x, y), dim, temperature, triton_statistics(y.dtype), MOST)


@jit
def _along(
    x: tl.tensor,
    y: tl.tensor,
    count: tl.tensor,
    cols: tl.tensor,
    inner: tl.tensor,
    x_outer: tl.tensor,
    x_col: tl.tensor,
    x_inner: tl.tensor,
    y_outer: tl.tensor,
    y_col: tl.tensor,
    y_inner: tl.tensor,
    inverse: tl.float64,  # a plain float would be float32
    BLOCK: tl.constexpr,
    WIDTH: tl.constexpr,
    WHOLE: tl.constexpr,
    STATISTICS: tl.constexpr,
) -> None:
    line = tl.program_id(0).to(tl.int64) * WIDTH + tl.arange(0, WIDTH)
    inside = line < count
    x = starts(x, line, inner, x_outer, x_inner)
    y = starts(y, line, inner, y_outer, y_inner)
    scale = tl.full((), inverse, tl.float64).to(STATISTICS)
    # The maximum is subtracted before the division, so that a small temperature cannot overflow.
    # Triton's maximum passes over NaN; it comes back through the sum.
    if WHOLE:
        values = load_lines(x, inside, 0, cols, x_col, float("-inf"), BLOCK, STATISTICS)
        exponentials = tl.exp((values - tl.max(values, axis=0)[None, :]) * scale)
        quotients = exponentials / tl.sum(exponentials, axis=0)[None, :]
        store_lines(y, inside, 0, quotients, cols, y_col, BLOCK)
    else:
        tiles = tl.cdiv(cols, BLOCK)
        maximum = tl.full((WIDTH,), float("-inf"), STATISTICS)
        total = tl.zeros((WIDTH,), STATISTICS)
        for tile in range(tiles):
            values = load_lines(x, inside, tile, cols, x_col, float("-inf"), BLOCK, STATISTICS)
            raised = tl.maximum(maximum, tl.max(values, axis=0))
            # As long as all is -inf, -inf - -inf would be NaN: any finite shift gives the sum 0
            shift = tl.where(raised == float("-inf"), 0.0, raised)
            exponentials = tl.exp((values - shift[None, :]) * scale)
            total = total * tl.exp((maximum - shift) * scale) + tl.sum(exponentials, axis=0)
            maximum = raised
        for index in range(tiles):
            tile = tiles - 1 - index  # what was read last is still in the cache
            values = load_lines(x, inside, tile, cols, x_col, float("-inf"), BLOCK, STATISTICS)
            quotients = tl.exp((values - maximum[None, :]) * scale) / total[None, :]
            store_lines(y, inside, tile, quotients, cols, y_col, BLOCK)
