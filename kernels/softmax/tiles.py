"""Shared by the variants: their base, the dtype of statistics, and rows in tiles.

Offsets are 64-bit throughout: a matrix of more than 2³¹ elements overflows 32-bit ones. A HINT is
Triton's eviction policy: ``"evict_first"``, ``"evict_last"``, or empty for none.
"""

from __future__ import annotations

from collections import namedtuple
from typing import Any

import torch
from typing_extensions import override

from ..kernel import Kernel
from ..language import jit, tl
from ..launch import launch
from ..traffic import M, N, Traffic
from .operation import SOFTMAX


def statistics_dtype(dtype: torch.dtype, accumulate: str = "float32") -> torch.dtype:
    """The dtype of a row's maximum, exponentials and sum: ``accumulate``, or wider."""
    return torch.promote_types(dtype, getattr(torch, accumulate))


def empty_result(x: torch.Tensor) -> torch.Tensor:
    """An uninitialised contiguous tensor with the shape and dtype of ``x``."""
    return torch.empty_like(x, memory_format=torch.contiguous_format)


class TritonSoftmax(Kernel):
    """A softmax in Triton that also takes memory for its answer; here in one pass."""

    operation = SOFTMAX
    backend = "triton"
    dtypes = (*Kernel.dtypes, torch.float64)
    moves = Traffic(reads=M * N, writes=M * N)
    on_chip = N

    @override
    def __call__(self, x: torch.Tensor, y: torch.Tensor | None = None) -> torch.Tensor:
        """See `Kernel`; ``y``, for the answer, is contiguous."""
        y = empty_result(x) if y is None else y
        if x.numel() > 0:
            self.into(x, y)
        return y

    def into(self, x: torch.Tensor, y: torch.Tensor) -> None:
        """Writes the softmax of a matrix that is not empty into ``y``, which is contiguous.

        A variant defines this, or `prepare`, which is then called each time.
        """
        self.prepare(x)(x, y)


class RowAProgram(TritonSoftmax):
    """A softmax that launches one program per row."""

    row_a_program = True

    def launch(
        self, function: Any, x: torch.Tensor, y: torch.Tensor, warps: int, **constants: Any
    ) -> None:
        """Launches a kernel of x, y and where the rows of x are."""
        launch(function, (len(x),), (x, y, rows_of(x)), constants, num_warps=warps)


# Elements of a row, and the strides of rows and of columns in elements
Rows = namedtuple("Rows", "cols row_stride col_stride")


def rows_of(x: torch.Tensor) -> Rows:
    """Where the rows of a matrix are."""
    return Rows(x.shape[1], *x.stride())


@jit
def load_tile(
    row: tl.tensor,
    tile: tl.tensor,
    at: Rows,
    BLOCK: tl.constexpr,
    STATISTICS: tl.constexpr,
    HINT: tl.constexpr,
) -> tl.tensor:
    """Columns ``tile·BLOCK …`` of the row at pointer ``row``, padded with −inf, as STATISTICS."""
    columns = tl.cast(tile, tl.int64) * BLOCK + tl.arange(0, BLOCK)
    places = row + columns * at.col_stride
    values = tl.load(places, mask=columns < at.cols, other=float("-inf"), eviction_policy=HINT)
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
