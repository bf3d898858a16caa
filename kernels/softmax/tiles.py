"""Shared by the variants: the dtype of statistics, and reading and writing rows in tiles.

Offsets are 64-bit throughout: a matrix of more than 2³¹ elements overflows 32-bit ones. A HINT is
Triton's eviction policy: ``"evict_first"``, ``"evict_last"``, or empty for none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import torch

from ..kernel import Kernel, Shape, one_of
from ..language import LARGEST_BLOCK, jit, next_power_of_two, tl
from ..launch import launch
from ..vectors import LONGEST
from .operation import SOFTMAX

Accumulate = Annotated[str, one_of("float32", "float64")]  # the dtype of a row's statistics


def statistics_dtype(dtype: torch.dtype, accumulate: str = "float32") -> torch.dtype:
    """The dtype of a row's maximum, exponentials and sum: ``accumulate``, or wider."""
    return torch.promote_types(dtype, getattr(torch, accumulate))


def triton_statistics(dtype: torch.dtype, accumulate: str = "float32") -> Any:
    """Triton's name for `statistics_dtype`."""
    return tl.float64 if statistics_dtype(dtype, accumulate) == torch.float64 else tl.float32


def empty_result(x: torch.Tensor) -> torch.Tensor:
    """An uninitialised contiguous tensor with the shape and dtype of ``x``."""
    return torch.empty_like(x, memory_format=torch.contiguous_format)


def too_wide(shape: Shape) -> str | None:
    """One sentence that says why a row cannot be one tile; None if it can."""
    if next_power_of_two(shape[1]) > LARGEST_BLOCK:
        return f"a row of {shape[1]} is more than Triton's largest block, {LARGEST_BLOCK}"
    return None


def vector(x: torch.Tensor) -> int:
    """Elements of the longest vector, up to 16 bytes, that divides every row of ``x``.

    Args:
        x: Shape ``(M, N)``, M and N at least 1. Rows are whole numbers of such vectors and begin
            at a multiple of one; where columns are strided it is 1.
    """
    rows, cols = x.shape
    row_stride, col_stride = x.stride()
    if col_stride != 1 and cols > 1:
        return 1
    size = x.element_size()
    # the lowest bit set in any of them is the longest power of two that divides all
    lengths = (cols * size) | (row_stride * size if rows > 1 else 0) | x.data_ptr() | LONGEST
    return (lengths & -lengths) // size


@dataclass(frozen=True)
class RowAProgram(Kernel):
    """A softmax that launches one program per row."""

    operation = SOFTMAX
    backend = "triton"
    dtypes = (*Kernel.dtypes, torch.float64)
    row_a_program = True

    def launch(
        self,
        function: Any,
        x: torch.Tensor,
        y: torch.Tensor | None,
        warps: int,
        constants: Mapping[str, Any],
    ) -> torch.Tensor:
        """The answer of a kernel of x, y, the columns and the strides of x; in ``y`` or anew."""
        y = empty_result(x) if y is None else y
        if x.numel() > 0:
            arguments = (x, y, x.shape[1], x.stride(0), x.stride(1))
            launch(function, (x.shape[0],), arguments, constants, num_warps=warps)
        return y


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
