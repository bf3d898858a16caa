"""What the Triton variants share: reading and writing a tile of a row, whatever its strides.

Offsets are 64-bit throughout: a matrix of more than 2³¹ elements overflows 32-bit ones. A HINT is
Triton's eviction policy: ``"evict_first"``, ``"evict_last"``, or empty for none.
"""

from __future__ import annotations

from typing import Any

import torch

from kernels.kernel import Shape
from kernels.language import LARGEST_BLOCK, MOST_PROGRAMS, jit, next_power_of_two, tl
from kernels.softmax.statistics import statistics_dtype


def triton_statistics(dtype: torch.dtype, accumulate: str) -> Any:
    """Triton's name for `statistics_dtype`."""
    return tl.float64 if statistics_dtype(dtype, accumulate) == torch.float64 else tl.float32


def empty_result(x: torch.Tensor) -> torch.Tensor:
    """A contiguous tensor with the shape and dtype of ``x``, its values yet to be written."""
    return torch.empty_like(x, memory_format=torch.contiguous_format)


def too_many_rows(shape: Shape) -> str | None:
    """Why one program a row cannot be launched, or None when it can."""
    if shape[0] > MOST_PROGRAMS:
        return f"starts a program a row, and a launch takes {MOST_PROGRAMS}, not {shape[0]}"
    return None


def too_wide(shape: Shape) -> str | None:
    """Why a row cannot be one tile, or None when it can."""
    if next_power_of_two(shape[1]) > LARGEST_BLOCK:
        return f"a row of {shape[1]} is more than Triton's largest block, {LARGEST_BLOCK}"
    return None


@jit
def load_tile(
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
    return values.to(STATISTICS)  # exp takes no 16-bit dtype, and its sum would overflow one


@jit
def store_tile(
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
