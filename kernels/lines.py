"""Lines, and softmax along any dimension of a tensor, which normalises one line at a time.

A tensor counts as outer × cols × inner: `cols` is the dimension of the softmax, `outer` merges the
dimensions before it, and `inner` merges the dimensions after it. A matrix of rows has inner = 1.

A program holds a tile: BLOCK elements of each of WIDTH neighbouring lines. So it reads whole memory
sectors both where the elements of a line are adjacent (inner = 1) and where lines are adjacent.

`softmax(x)` launches `along` where no variant applies: variants take only rows of a matrix. One
pass where a line fits a tile (2MN), else two, as `online` (3MN).
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Sequence
from math import prod
from typing import Any, NamedTuple

import torch

from .language import jit, next_power_of_two, tl
from .launch import launch

MOST = 16384  # elements of a tile of `along`: 32 per thread, of 16 warps
SECTORS = 128  # bytes of neighbouring lines that a tile takes together: a line of the cache


class Lines(NamedTuple):
    """Sizes and strides, in elements, of a tensor viewed as outer × cols × inner."""

    outer: int
    cols: int
    inner: int
    strides: tuple[int, ...]


def lines(x: torch.Tensor, dim: int) -> Lines | None:
    """The lines of a tensor along ``dim`` (≥ 0); None where no three strides describe them."""
    try:
        merged = x.detach().view(prod(x.shape[:dim]), x.shape[dim], prod(x.shape[dim + 1 :]))
    except RuntimeError:
        return None
    outer, cols, inner = merged.shape
    return Lines(outer, cols, inner, merged.stride())


# Of a kernel: all lines, the elements of a line, and the lines of one inner dimension
Sizes = namedtuple("Sizes", "count cols inner")


def launch_tiles(
    function: Any,
    tensors: Sequence[torch.Tensor],
    dim: int,
    temperature: float,
    most: int,
    num_warps: int | None = None,
    batch_invariant: bool = False,
    **constants: Any,
) -> None:
    """Launches a kernel on all lines of its tensors, one program per WIDTH lines.

    All tensors have one shape, with at least one element. A tile has up to ``most`` elements. With
    ``batch_invariant`` it does not depend on the number of lines.

    Args:
        function: A kernel of the tensors, the three strides of each, `Sizes`, the inverse of the
            temperature, and constants: BLOCK, WIDTH, WHOLE (a tile holds whole lines), its own.
        tensors: The inputs, then the outputs.
        dim: The dimension along which lines run, not negative.
        temperature: Positive.
        num_warps: Warps per program; None takes one for 512 elements of a tile, 4 to 32.
    """
    each = [found for t in tensors if (found := lines(t, dim)) is not None]
    assert len(each) == len(tensors)
    first = each[0]
    count = first.outer * first.inner
    itemsize = max(tensors[0].element_size(), tensors[-1].element_size())
    assumed = most if batch_invariant else count
    block = next_power_of_two(first.cols)
    sector = 1 if first.strides[1] == 1 else SECTORS // itemsize
    width = max(sector, min(2048, most) // block)  # narrow lines: several a program
    width = min(width, next_power_of_two(assumed))
    block = max(min(block, most // width), 1)
    warps = num_warps or min(max(block * width // 512, 4), 32)
    constants |= {"BLOCK": block, "WIDTH": width, "WHOLE": block >= first.cols}
    sizes = Sizes(count, first.cols, first.inner)
    launch(
        function,
        (-(-count // width),),
        (*tensors, *(t.strides for t in each), sizes, 1 / temperature),
        constants,
        num_warps=warps,
    )


@jit
def lines_of(WIDTH: tl.constexpr, sizes: Sizes) -> tuple[tl.tensor, tl.tensor]:
    """The numbers of a program's lines (64 bit), 1 × WIDTH, and whether there are such lines."""
    line = (tl.program_id(0).to(tl.int64) * WIDTH + tl.arange(0, WIDTH))[None, :]
    return line, line < sizes.count


@jit
def starts(tensor: tl.tensor, line: tl.tensor, sizes: Sizes, strides: tl.tuple) -> tl.tensor:
    """Pointers to the first elements of lines ``line``."""
    return tensor + (line // sizes.inner) * strides[0] + (line % sizes.inner) * strides[2]


@jit
def columns_of(
    tile: tl.tensor, inside: tl.tensor, sizes: Sizes, BLOCK: tl.constexpr
) -> tuple[tl.tensor, tl.tensor]:
    """Columns ``tile·BLOCK …`` (64 bit), BLOCK × 1, and which of them lines ``inside`` have."""
    columns = (tl.cast(tile, tl.int64) * BLOCK + tl.arange(0, BLOCK))[:, None]
    return columns, (columns < sizes.cols) & inside


@jit
def along(
    x: tl.tensor,
    y: tl.tensor,
    x_strides: tl.tuple,
    y_strides: tl.tuple,
    sizes: Sizes,
    inverse: tl.float64,  # a plain float would be float32
    BLOCK: tl.constexpr,
    WIDTH: tl.constexpr,
    WHOLE: tl.constexpr,
) -> None:
    """Writes the softmax of lines of ``x`` into ``y``, contiguous, of any floating-point dtype."""
    dtype: tl.constexpr = y.dtype.element_ty
    STATISTICS: tl.constexpr = tl.float64 if dtype == tl.float64 else tl.float32
    line, inside = lines_of(WIDTH, sizes)
    x, x_col = starts(x, line, sizes, x_strides), x_strides[1]
    y, y_col = starts(y, line, sizes, y_strides), y_strides[1]
    scale = tl.full((), inverse, tl.float64).to(STATISTICS)
    # The maximum is subtracted before the division, so that a small temperature cannot overflow.
    # Triton's maximum passes over NaN; it comes back through the sum.
    if WHOLE:
        columns, there = columns_of(0, inside, sizes, BLOCK)
        values = tl.load(x + columns * x_col, there, float("-inf")).to(STATISTICS)
        exponentials = tl.exp((values - tl.max(values, axis=0)[None, :]) * scale)
        quotients = exponentials / tl.sum(exponentials, axis=0)[None, :]
        tl.store(y + columns * y_col, quotients.to(dtype), there)
    else:
        tiles = tl.cdiv(sizes.cols, BLOCK)
        maximum = tl.full((WIDTH,), float("-inf"), STATISTICS)
        total = tl.zeros((WIDTH,), STATISTICS)
        for tile in range(tiles):
            columns, there = columns_of(tile, inside, sizes, BLOCK)
            values = tl.load(x + columns * x_col, there, float("-inf")).to(STATISTICS)
            raised = tl.maximum(maximum, tl.max(values, axis=0))
            # As long as all is -inf, -inf - -inf would be NaN: any finite shift gives the sum 0
            shift = tl.where(raised == float("-inf"), 0.0, raised)
            exponentials = tl.exp((values - shift[None, :]) * scale)
            total = total * tl.exp((maximum - shift) * scale) + tl.sum(exponentials, axis=0)
            maximum = raised
        for index in range(tiles):  # what was read last is still in the cache
            columns, there = columns_of(tiles - 1 - index, inside, sizes, BLOCK)
            values = tl.load(x + columns * x_col, there, float("-inf")).to(STATISTICS)
            quotients = tl.exp((values - maximum[None, :]) * scale) / total[None, :]
            tl.store(y + columns * y_col, quotients.to(dtype), there)
