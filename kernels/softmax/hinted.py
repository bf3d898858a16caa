"""Reading and writing a tile of a row as `tiles` does, with a hint to the caches for each.

A hint is Triton's eviction policy: ``"evict_first"``, ``"evict_last"``, or empty for none.
"""

from __future__ import annotations

from kernels.language import jit, tl


@jit
def load_hinted(
    row: tl.tensor,
    tile: tl.tensor,
    cols: tl.tensor,
    stride: tl.tensor,
    BLOCK: tl.constexpr,
    STATISTICS: tl.constexpr,
    HINT: tl.constexpr,
) -> tl.tensor:
    """Columns ``tile·BLOCK …`` of the row at pointer ``row``, padded with −inf, as STATISTICS."""
    columns = tl.cast(tile, tl.int64) * BLOCK + tl.arange(0, BLOCK)
    places = row + columns * stride
    values = tl.load(places, mask=columns < cols, other=float("-inf"), eviction_policy=HINT)
    return values.to(STATISTICS)


@jit
def store_hinted(
    row: tl.tensor,
    tile: tl.tensor,
    values: tl.tensor,
    cols: tl.tensor,
    BLOCK: tl.constexpr,
    HINT: tl.constexpr,
) -> None:
    """Writes columns ``tile·BLOCK …`` of a contiguous row, rounding to its dtype."""
    columns = tl.cast(tile, tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = columns < cols
    tl.store(row + columns, values.to(row.dtype.element_ty), mask=inside, eviction_policy=HINT)
