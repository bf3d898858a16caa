"""Rows that begin anywhere in memory, read and written by whole vectors of 16 bytes.

A row whose length or stride is not a whole number of vectors begins at another place than a vector
does. Its body is the vectors that lie within it; of what is left at its two ends, fewer than a
vector each, every element is moved by itself (`ENDS`). A tile of rows has three axes: lanes, rows,
and the elements of a lane's vector, so that what a lane holds is reduced within its thread.
Lengths come to a kernel in vectors, times the constant VECTOR, so that Triton knows that no mask
and no row's begin cuts a vector. Where columns are strided a vector is an element.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from .language import jit, tl

LONGEST = 16  # bytes that one thread loads or stores at once


@dataclass(frozen=True)
class Layout:
    """How matrices of one dtype and shape are read and written, row by row and alike.

    Attributes:
        vector: Elements of a vector.
        ends: Whether rows begin and end anywhere; lengths are then in elements, else in vectors.
        cols: Length of a row.
        bases: A tensor for each matrix that begins at a vector.
        leads: Elements from there to its first.
        strides: Of each matrix's rows, then of its columns, the latter in elements.
    """

    vector: int
    ends: bool
    cols: int
    bases: tuple[torch.Tensor, ...]
    leads: tuple[int, ...]
    strides: tuple[tuple[int, int], ...]


def layout(*matrices: torch.Tensor) -> Layout:
    """The longest vectors by which rows of all of ``matrices``, M×N and not empty, are moved."""
    first, rows, cols = matrices[0], *matrices[0].shape
    size = first.element_size()
    longest = LONGEST // size
    dense = all(x.stride(1) == 1 for x in matrices) or cols == 1
    leads = tuple(x.data_ptr() % LONGEST // size for x in matrices)
    steps = tuple(x.stride(0) if rows > 1 else 0 for x in matrices)
    alike = all(
        (lead - leads[0]) % longest == 0 and (step - steps[0]) % longest == 0
        for lead, step in zip(leads, steps, strict=True)
    )
    reachable = all(x.storage_offset() >= n for x, n in zip(matrices, leads, strict=True))
    if dense and alike and reachable and cols >= 2 * longest:
        ends = any((cols % longest, leads[0], steps[0] % longest))
        vector = longest
    else:
        ends, vector = False, _common(cols, leads, steps, longest) if dense else 1
    if not ends:
        leads = (0,) * len(matrices)
    return Layout(
        vector,
        ends,
        cols if ends else cols // vector,
        tuple(_back(x, lead) for x, lead in zip(matrices, leads, strict=True)),
        leads,
        tuple(
            (step if ends else step // vector, 1 if dense else x.stride(1))
            for x, step in zip(matrices, steps, strict=True)
        ),
    )


def _common(cols: int, leads: Sequence[int], steps: Sequence[int], longest: int) -> int:
    """Elements of the longest vector that divides all of these lengths."""
    lengths = cols | longest
    for length in (*leads, *steps):
        lengths |= length
    return lengths & -lengths


def _back(x: torch.Tensor, lead: int) -> torch.Tensor:
    return x.as_strided((1,), (1,), x.storage_offset() - lead) if lead else x


@jit
def first_element(
    base: tl.tensor,
    row: tl.tensor,
    row_stride: tl.tensor,
    lead: tl.tensor,
    VECTOR: tl.constexpr,
    ENDS: tl.constexpr,
) -> tl.tensor:
    """Pointers to the first elements of rows ``row``, which are in 64 bit."""
    if ENDS:
        return base + (row * row_stride + lead)
    return base + row * row_stride * VECTOR


@jit
def first_vector(
    base: tl.tensor,
    row: tl.tensor,
    row_stride: tl.tensor,
    lead: tl.tensor,
    VECTOR: tl.constexpr,
    ENDS: tl.constexpr,
) -> tl.tensor:
    """Pointers to the first whole vectors of rows ``row``."""
    if ENDS:
        return base + (row * row_stride + (lead + VECTOR - 1)) // VECTOR * VECTOR
    return base + row * row_stride * VECTOR


@jit
def ahead_of(
    row: tl.tensor,
    row_stride: tl.tensor,
    lead: tl.tensor,
    VECTOR: tl.constexpr,
    ENDS: tl.constexpr,
) -> tl.tensor:
    """Elements of rows ``row`` ahead of their first whole vector."""
    if ENDS:
        return ((VECTOR - (row * row_stride + lead) % VECTOR) % VECTOR).to(tl.int32)
    return (row * 0).to(tl.int32)


@jit
def whole_vectors(
    cols: tl.tensor, ahead: tl.tensor, VECTOR: tl.constexpr, ENDS: tl.constexpr
) -> tl.tensor:
    """Whole vectors of rows of ``cols``, in 32 bit."""
    if ENDS:
        return (cols - ahead) // VECTOR
    return cols + ahead  # none is ahead


@jit
def end_columns(cols: tl.tensor, ahead: tl.tensor, VECTOR: tl.constexpr) -> tl.tensor:
    """The columns at rows' two ends, 2·VECTOR × rows; −1 where there is none."""
    lane = tl.arange(0, 2 * VECTOR)[:, None]
    ahead = ahead[None, :]
    behind = (cols - ahead) % VECTOR
    before = tl.where(lane < ahead, lane, -1)
    after = tl.where(lane < VECTOR + behind, cols - behind - VECTOR + lane, -1)
    return tl.where(lane < VECTOR, before, after)


@jit
def vectors_of(piece: tl.tensor, LANES: tl.constexpr) -> tl.tensor:
    """The number in its row of each lane's vector, in a piece of LANES vectors: LANES × 1 × 1."""
    return piece * LANES + tl.arange(0, LANES)[:, None, None]


@jit
def offsets_of(vectors: tl.tensor, stride: tl.tensor, VECTOR: tl.constexpr) -> tl.tensor:
    """Elements from a row's first whole vector to those of its ``vectors``."""
    columns = vectors * VECTOR + tl.arange(0, VECTOR)[None, None, :]
    if VECTOR == 1:
        columns = columns.to(tl.int64) * stride
    return columns
