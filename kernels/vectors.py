"""Rows at any address, read and written by 16-byte vectors.

Unaligned rows: the middle of a row moves as whole vectors, and each of the few elements at its two
ends moves by itself (`ENDS`). A tile of rows has three axes: lanes, rows, and the elements of a
lane's vector. So a lane reduces its own elements within its thread. A kernel receives lengths in
vectors and multiplies them by the constant VECTOR: then Triton knows that neither a mask nor the
start of a row cuts a vector. Where columns are strided, a vector is one element.
"""

from __future__ import annotations

from collections import namedtuple
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
    """How a kernel reads and writes matrices of one dtype and shape.

    Attributes:
        vector: Elements of a vector.
        ends: Whether rows are unaligned. Lengths are then in elements, else in vectors.
        cols: Length of a row.
        bases: For each matrix a tensor that starts on a vector boundary.
        places: For each matrix where its rows are, from its base.
    """

    vector: int
    ends: bool
    cols: int
    bases: tuple[torch.Tensor, ...]
    places: tuple[At, ...]


def layout(*matrices: torch.Tensor) -> Layout:
    """The layout with the longest vectors that suit all ``matrices``, each M×N and not empty."""
    first, rows, cols = matrices[0], *matrices[0].shape
    size = first.element_size()
    longest = LONGEST // size
    dense = all(x.stride(1) == 1 for x in matrices) or cols == 1
    leads = [x.data_ptr() % LONGEST // size for x in matrices]
    steps = [x.stride(0) if rows > 1 else 0 for x in matrices]
    alike = all(
        (lead - leads[0]) % longest == 0 and (step - steps[0]) % longest == 0
        for lead, step in zip(leads, steps, strict=True)
    )
    reachable = all(x.storage_offset() >= n for x, n in zip(matrices, leads, strict=True))
    if dense and alike and reachable and cols >= 2 * longest:
        ends, vector = any((cols % longest, leads[0], steps[0] % longest)), longest
    else:  # the longest vector that divides all of these lengths
        lengths = reduce(or_, (cols, longest, *leads, *steps))
        ends, vector = False, lengths & -lengths if dense else 1
    if not ends:
        leads = [0] * len(matrices)
    return Layout(
        vector,
        ends,
        cols if ends else cols // vector,
        tuple(_back(x, lead) for x, lead in zip(matrices, leads, strict=True)),
        tuple(
            At(step if ends else step // vector, 1 if dense else x.stride(1), lead)
            for x, step, lead in zip(matrices, steps, leads, strict=True)
        ),
    )


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
