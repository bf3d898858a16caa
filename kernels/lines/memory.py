"""Reading and writing a tile of lines in a Triton kernel: BLOCK elements of each of WIDTH lines."""

from __future__ import annotations

from kernels.language import jit, tl


@jit
def starts(
    tensor: tl.tensor,
    line: tl.tensor,
    inner: tl.tensor,
    outer_stride: tl.tensor,
    inner_stride: tl.tensor,
) -> tl.tensor:
    """Pointers to the first elements of lines ``line`` (64 bit)."""
    return tensor + (line // inner) * outer_stride + (line % inner) * inner_stride


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
    """Columns ``tile·BLOCK …`` of the lines that begin at ``first``, BLOCK × WIDTH.

    Where there is no column, or no line ``inside``, it is OTHER.
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
    """Writes what `load_lines` reads, rounding to the dtype of the memory."""
    columns = tl.cast(tile, tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = (columns < cols)[:, None] & inside[None, :]
    pointers = first[None, :] + (columns * stride)[:, None]
    tl.store(pointers, values.to(first.dtype.element_ty), mask=mask)
