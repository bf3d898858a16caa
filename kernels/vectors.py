"""Rows at any address, read and written by 16-byte vectors.

Unaligned rows: the middle of a row moves as whole vectors, and each of the few elements at its two
ends moves by itself (`ENDS`). A tile of rows has three axes: lanes, rows, and the elements of a
lane's vector. So a lane reduces its own elements within its thread. A kernel receives lengths in
vectors and multiplies them by the constant VECTOR: then Triton knows that neither a mask nor the
start of a row cuts a vector. Where columns are strided, a vector is one element.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_

import torch

from .language import jit, tl

LONGEST = 16  # bytes that one thread loads or stores at once


# Where the rows of a matrix are: the row stride in vectors, or in elements of unaligned rows, the
# column stride in elements, and the elements from an aligned base to the first
At = namedtuple("At", "row_stride col_stride lead")


@dataclass(frozen=True)
class Layout:
    """How a kernel reads and writes matrices of one dtype and shape."""

    vector: int  # elements of a vector
    ends: bool  # whether rows are unaligned; lengths are then in elements, else in vectors
    cols: int  # length of a row
    bases: tuple[torch.Tensor, ...]  # for each matrix a tensor that starts on a vector boundary
    places: tuple[At, ...]  # for each matrix where its rows are, from its base


def layout(*matrices: torch.Tensor) -> Layout:
    """The layout with the longest vectors that suit all ``matrices``, each M×N and not empty."""
    leads, steps = _places(matrices)
    reachable = all(x.storage_offset() >= n for x, n in zip(matrices, leads, strict=True))
    vector, ends = _longest(matrices, leads, steps, reachable)
    cols, unit = matrices[0].shape[1], 1 if ends else vector
    if not ends:
        leads = [0] * len(matrices)
    return Layout(
        vector,
        ends,
        cols // unit,
        tuple(_back(x, lead) for x, lead in zip(matrices, leads, strict=True)),
        tuple(
            At(step // unit, 1 if cols == 1 else x.stride(1), lead)
            for x, step, lead in zip(matrices, steps, leads, strict=True)
        ),
    )


def reading(*given: torch.Tensor | None, contiguous: bool = False) -> tuple[int, bool]:
    """As `layout`, for kernels of which each matrix begins at a vector if its rows do not.

    The matrices, of one shape and dtype, have at least one element; None is left out.
    ``contiguous`` says that a contiguous one will be written, which is not there yet.

    Returns:
        The elements of a vector, and whether rows are unaligned with such vectors.
    """
    matrices = [x for x in given if x is not None]
    leads, steps = _places(matrices)
    if contiguous and len(matrices[0]) > 1:
        steps.append(matrices[0].shape[1])
    return _longest(matrices, leads, steps, not any(leads))


def vector(*matrices: torch.Tensor) -> int:
    """Elements of the longest vector, up to 16 bytes, of which all rows are whole numbers."""
    return _longest(matrices, *_places(matrices), False)[0]


def _places(matrices: Sequence[torch.Tensor]) -> tuple[list[int], list[int]]:
    """Elements from the last vector boundary to each matrix, and between its rows."""
    leads = [x.data_ptr() % LONGEST // x.element_size() for x in matrices]
    return leads, [x.stride(0) if len(x) > 1 else 0 for x in matrices]


def _longest(
    matrices: Sequence[torch.Tensor], leads: Sequence[int], steps: Sequence[int], free: bool
) -> tuple[int, bool]:
    """Elements of a vector, and whether rows are unaligned: where ``free``, if they are alike."""
    first, cols = matrices[0], matrices[0].shape[1]
    longest = LONGEST // first.element_size()
    dense = cols == 1 or all(x.stride(1) == 1 for x in matrices)
    # the lowest bit set in any of them is the longest power of two that divides all
    lengths = reduce(or_, (cols, longest, *leads, *steps))
    whole = lengths & -lengths if dense else 1
    alike = all((n - each[0]) % longest == 0 for each in (leads, steps) for n in each)
    if free and dense and alike and cols >= 2 * longest:
        return longest, whole < longest
    return whole, False


def _back(x: torch.Tensor, lead: int) -> torch.Tensor:
    return x.as_strided((1,), (1,), x.storage_offset() - lead) if lead else x


# Device code; HOW has the `vector` and `ends` of a `Layout`.


@jit
def first_element(base: tl.tensor, at: At, row: tl.tensor, HOW: tl.constexpr) -> tl.tensor:
    """Pointers to the first elements of rows ``row`` (int64)."""
    if HOW.ends:
        return base + (row * at.row_stride + at.lead)
    return base + row * at.row_stride * HOW.vector


@jit
def first_vector(base: tl.tensor, at: At, row: tl.tensor, HOW: tl.constexpr) -> tl.tensor:
    """Pointers to the first whole vectors of rows ``row``."""
    VECTOR: tl.constexpr = HOW.vector
    if HOW.ends:
        return base + (row * at.row_stride + (at.lead + VECTOR - 1)) // VECTOR * VECTOR
    return base + row * at.row_stride * VECTOR


@jit
def ahead_of(at: At, row: tl.tensor, HOW: tl.constexpr) -> tl.tensor:
    """The number of elements before the first whole vector of rows ``row``."""
    VECTOR: tl.constexpr = HOW.vector
    if HOW.ends:
        return ((VECTOR - (row * at.row_stride + at.lead) % VECTOR) % VECTOR).to(tl.int32)
    return (row * 0).to(tl.int32)


@jit
def whole_vectors(cols: tl.tensor, ahead: tl.tensor, HOW: tl.constexpr) -> tl.tensor:
    """The number of whole vectors in rows of ``cols`` elements (int32)."""
    if HOW.ends:
        return (cols - ahead) // HOW.vector
    return cols + ahead  # none is ahead


@jit
def end_columns(cols: tl.tensor, ahead: tl.tensor, VECTOR: tl.constexpr) -> tl.tensor:
    """The columns at both ends of rows, 2·VECTOR × rows; −1 where there is no column."""
    lane = tl.arange(0, 2 * VECTOR)[:, None]
    ahead = ahead[None, :]
    behind = (cols - ahead) % VECTOR
    before = tl.where(lane < ahead, lane, -1)
    after = tl.where(lane < VECTOR + behind, cols - behind - VECTOR + lane, -1)
    return tl.where(lane < VECTOR, before, after)


@jit
def vectors_of(piece: tl.tensor, LANES: tl.constexpr) -> tl.tensor:
    """The index within its row of each lane's vector, LANES × 1 × 1, for one piece."""
    return piece * LANES + tl.arange(0, LANES)[:, None, None]


@jit
def offsets_of(vectors: tl.tensor, stride: tl.tensor, VECTOR: tl.constexpr) -> tl.tensor:
    """Offsets, in elements, of ``vectors`` from the first whole vector of their row."""
    columns = vectors * VECTOR + tl.arange(0, VECTOR)[None, None, :]
    if VECTOR == 1:
        columns = columns.to(tl.int64) * stride
    return columns
