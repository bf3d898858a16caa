"""Lines, and softmax along any dimension of a tensor, which normalises one line at a time.

A tensor counts as outer × cols × inner: `cols` is the dimension of the softmax, `outer` merges the
dimensions before it, and `inner` merges the dimensions after it. A matrix of rows has inner = 1.

A program holds a tile: BLOCK elements of each of WIDTH neighbouring lines. So it reads whole memory
sectors both where the elements of a line are adjacent (inner = 1) and where lines are adjacent.

`softmax(x)` calls `along` where no variant applies: variants take only rows of a matrix. One pass
where a line fits a tile (2MN), else two, as `online` (3MN).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from .language import jit, next_power_of_two, tl
from .launch import launch

MOST = 16384  # elements of a tile of `along`: 32 per thread, of 16 warps
SECTORS = 128  # bytes of neighbouring lines that a tile takes together: a line of the cache


@dataclass(frozen=True)
class Lines:
    """Sizes and strides, in elements, of a tensor viewed as outer × cols × inner."""

    outer: int
    cols: int
    inner: int
    strides: tuple[int, int, int]


def lines(shape: Sequence[int], strides: Sequence[int], dim: int) -> Lines | None:
    """The lines of a tensor along ``dim`` (≥ 0); None where no three strides describe them."""
    outer = _merged(shape[:dim], strides[:dim])
    inner = _merged(shape[dim + 1 :], strides[dim + 1 :])
    if outer is None or inner is None:
        return None
    return Lines(
        outer[0], shape[dim], inner[0], (outer[1], strides[dim] if shape[dim] > 1 else 1, inner[1])
    )


def _merged(shape: Sequence[int], strides: Sequence[int]) -> tuple[int, int] | None:
    """Size and stride of several dimensions merged into one."""
    size, step = 1, 0
    for n, stride in zip(reversed(shape), reversed(strides), strict=True):
        if n == 1:
            continue
        if size > 1 and stride != size * step:
            return None
        step = step if size > 1 else stride
        size *= n
    return size, step


def launch_tiles(
    function: Any,
    tensors: Sequence[torch.Tensor],
    dim: int,
    temperature: float,
    most: int,
    num_warps: int | None = None,
    batch_invariant: bool = False,
) -> None:
    """Launches a kernel on all lines of its tensors, one program per WIDTH lines.

    Args:
        function: A kernel of the tensors, the three strides of each, the count of lines, ``cols``,
            ``inner``, the inverse of the temperature, and the constants BLOCK, WIDTH and WHOLE (a
            tile holds whole lines).
        tensors: The inputs, then the outputs. All have the same shape, at least one dimension and
            one element, and lines along ``dim``.
        dim: The dimension along which lines run, not negative.
        temperature: Positive.
        most: Elements of a tile.
        num_warps: Warps per program; None takes one for 512 elements of a tile, 4 to 32.
        batch_invariant: Whether the tile must not depend on the number of lines.
    """
    each = [found for t in tensors if (found := lines(t.shape, t.stride(), dim)) is not None]
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
    constants = {"BLOCK": block, "WIDTH": width, "WHOLE": block >= first.cols}
    launch(
        function,
        (-(-count // width),),
        (*tensors, *(one.strides for one in each), count, first.cols, first.inner, 1 / temperature),
        constants,
        num_warps=warps,
    )


def along(
    x: torch.Tensor, y: torch.Tensor, dim: int, temperature: float, batch_invariant: bool = False
) -> None:
    """Writes softmax(x / temperature) along ``dim`` into ``y``.

    Args:
        x: Any shape with at least one dimension and one element. Its dimensions before ``dim``, and
            those after it, can be merged into one.
        y: The same shape, any floating-point dtype; contiguous.
        dim: The dimension that is normalised, not negative.
        temperature: Positive.
        batch_invariant: As in `launch_tiles`.
    """
    launch_tiles(_along, (x, y), dim, temperature, MOST, None, batch_invariant)


@jit
def starts(tensor: tl.tensor, line: tl.tensor, inner: tl.tensor, strides: tl.tuple) -> tl.tensor:
    """Pointers to the first elements of lines ``line`` (64 bit)."""
    return tensor + (line // inner) * strides[0] + (line % inner) * strides[2]


@jit
def load_lines(
    first: tl.tensor,
    inside: tl.tensor,
    tile: tl.tensor,
    cols: tl.tensor,
    stride: tl.tensor,
    OTHER: tl.constexpr,
    BLOCK: tl.constexpr,
    STATISTICS: tl.constexpr,
) -> tl.tensor:
    """Columns ``tile·BLOCK …`` of the lines that start at ``first``, BLOCK × WIDTH.

    Elements beyond the last column or beyond the last line (not ``inside``) are OTHER.
    """
    columns = tl.cast(tile, tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = (columns < cols)[:, None] & inside[None, :]
    values = tl.load(first[None, :] + (columns * stride)[:, None], mask=mask, other=OTHER)
    return values.to(STATISTICS)


@jit
def store_lines(
    first: tl.tensor,
    inside: tl.tensor,
    tile: tl.tensor,
    values: tl.tensor,
    cols: tl.tensor,
    stride: tl.tensor,
    BLOCK: tl.constexpr,
) -> None:
    """Stores a tile of `load_lines`, rounded to the dtype of the memory."""
    columns = tl.cast(tile, tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = (columns < cols)[:, None] & inside[None, :]
    pointers = first[None, :] + (columns * stride)[:, None]
    tl.store(pointers, values.to(first.dtype.element_ty), mask=mask)


@jit
def _along(
    x: tl.tensor,
    y: tl.tensor,
    x_strides: tl.tuple,
    y_strides: tl.tuple,
    count: tl.tensor,
    cols: tl.tensor,
    inner: tl.tensor,
    inverse: tl.float64,  # a plain float would be float32
    BLOCK: tl.constexpr,
    WIDTH: tl.constexpr,
    WHOLE: tl.constexpr,
) -> None:
    STATISTICS: tl.constexpr = tl.float64 if y.dtype.element_ty == tl.float64 else tl.float32
    line = tl.program_id(0).to(tl.int64) * WIDTH + tl.arange(0, WIDTH)
    inside = line < count
    x = starts(x, line, inner, x_strides)
    y = starts(y, line, inner, y_strides)
    x_col, y_col = x_strides[1], y_strides[1]
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
