"""The roofs that Triton kernels set, element by element: copies, sums, and exponentials.

Passes: one; a copy reads MN and writes MN: 2MN; the sum reads 2MN and writes MN: 3MN; attention_io
reads 384M and writes 128M: 512M elements, whatever N; exponentials read and write an element for
each 256 of them.
On chip: a tile of `block_size` elements, of each matrix that is read.
Source: Triton's tutorial 01 (vector addition), for a copy less the addition; of exponentials this
project.

A program reads one tile of a matrix, or the same tile of several, and writes the tile or the sum,
to a new matrix or over its input. A matrix is one long row of 16-byte vectors with a short tail, so
that the time depends on the bytes and not on the width. One that is not contiguous is copied first.
An exponential comes with two additions, its argument's and its sum's, of which an SM does eight
times as many at once: nothing but the exponentials bounds it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import sympy
import torch
from typing_extensions import override

from ..kernel import Kernel, power_of_two, variant
from ..language import LARGEST_BLOCK, constant, jit, tl
from ..launch import launch, load_hint, store_hint
from ..softmax.tiles import empty_result
from ..traffic import BLOCK_SIZE, M, N, Traffic
from ..vectors import LONGEST
from .operation import ADD, ATTENTION_IO, COLS, COPY, EXPONENTIALS, STRETCH

THREAD_BYTES = 32  # of a tile, where its elements are not given
AT_ONCE = constant(16)  # steps of the loop's body
STEP = constant(1.4426950408889634 / STRETCH)
STEPS = constant(STRETCH)


@dataclass(frozen=True)
class Mover(Kernel):
    """One program per tile.

    32 bytes per thread, two loads of 16, make the fastest copy from 64 MB to 2 GB on an H200
    (docs/lab_book.md).
    """

    backend = "triton"
    dtypes = (*Kernel.dtypes, torch.float64)

    block_size: Annotated[int | None, power_of_two(1, LARGEST_BLOCK)] = 4096
    num_warps: Annotated[int, power_of_two(1, 32)] = 8
    keep: bool | None = False
    keep_output: bool | None = False

    @override
    def __call__(self, *matrices: torch.Tensor) -> torch.Tensor:
        """See `Kernel`; over an input that is not contiguous the answer is copied afterwards."""
        x = matrices[0]
        y = x if self.overwrites and x.is_contiguous() else empty_result(x)
        if x.numel() > 0:
            block = self._block(x.dtype)
            _move[(-(-x.numel() // block),)](
                tuple(one.contiguous() for one in matrices),
                y,
                x.numel(),
                BLOCK=block,
                VECTOR=min(LONGEST // x.element_size(), block),
                LOADS=load_hint(x, self.keep),
                STORES=store_hint(x, self.keep_output),
                num_warps=self.num_warps,
            )
        return x.copy_(y) if self.overwrites and y is not x else y

    @override
    def on_chip_elements(self) -> sympy.Expr:
        return sympy.Integer(self._block(torch.float32) * len(self.operation.inputs))

    def _block(self, dtype: torch.dtype) -> int:
        return self.block_size or 32 * self.num_warps * THREAD_BYTES // dtype.itemsize


CopyTriton = variant(Mover, COPY, moves=Traffic(reads=M * N, writes=M * N))
# The roof of kernels that leave their output where their input was. It is a copy, so that the copy
# roof of a sweep that has it is the faster of both, and no kernel beats the roof only because it
# writes in place. No answer shows whether it stores at all, because the matrix holds the answer
# from the start. Its counted requests show it.
CopyInPlace = variant(CopyTriton, COPY, overwrites="x")
AddTriton = variant(Mover, ADD, moves=Traffic(reads=2 * M * N, writes=M * N))


AttentionIo = variant(
    Mover, ATTENTION_IO, dtypes=Kernel.dtypes, moves=Traffic(reads=3 * 128 * M, writes=128 * M)
)


@dataclass(frozen=True)
class Exponentials(Kernel):
    """One program a tile."""

    operation = EXPONENTIALS
    backend = "triton"
    moves = Traffic(reads=M * COLS, writes=M * COLS)
    on_chip = BLOCK_SIZE

    block_size: Annotated[int, power_of_two(1, LARGEST_BLOCK)] = 512
    num_warps: Annotated[int, power_of_two(1, 32)] = 4

    @override
    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        y = empty_result(x)
        if x.numel() > 0:
            tiles, constants = -(-x.numel() // self.block_size), {"BLOCK": self.block_size}
            given = (x.contiguous(), y, x.numel())
            launch(_exponentials, (tiles,), given, constants, num_warps=self.num_warps)
        return y


@jit
def _move(
    matrices: tl.tuple,
    y: tl.tensor,
    count: tl.tensor,
    BLOCK: tl.constexpr,
    VECTOR: tl.constexpr,
    LOADS: tl.constexpr,
    STORES: tl.constexpr,
) -> None:
    # 64-bit offsets: a matrix of more than 2³¹ elements overflows 32-bit ones
    tile = tl.program_id(0).to(tl.int64)
    places = tile * BLOCK + tl.arange(0, BLOCK)
    # a vector lies inside as a whole or not at all, else its elements would be loaded one by one
    inside = places // VECTOR < count // VECTOR
    values = _sum(matrices, places, inside, LOADS)
    tl.store(y + places, values, mask=inside, eviction_policy=STORES)
    first = tl.cast(count // VECTOR, tl.int64) * VECTOR
    if (tile == tl.num_programs(0) - 1) & (first < count):
        rest = first + tl.arange(0, VECTOR)
        left = _sum(matrices, rest, rest < count, "")
        tl.store(y + rest, left, mask=rest < count)


@jit
def _sum(matrices: tl.tuple, places: tl.tensor, inside: tl.tensor, HINT: tl.constexpr) -> tl.tensor:
    """Elements of the one matrix, or of the sum in float32 (float64 for float64), rounded once."""
    values = tl.load(matrices[0] + places, mask=inside, eviction_policy=HINT)
    if len(matrices) > 1:
        dtype: tl.constexpr = values.dtype
        total = values.to(tl.float64 if dtype == tl.float64 else tl.float32)
        for i in tl.static_range(1, len(matrices)):
            more = tl.load(matrices[i] + places, mask=inside, eviction_policy=HINT)
            total += more.to(total.dtype)
        values = total.to(dtype)
    return values


@jit
def _exponentials(x: tl.tensor, y: tl.tensor, count: tl.tensor, BLOCK: tl.constexpr) -> None:
    places = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = places < count
    power = tl.load(x + places, mask=inside, other=0.0).to(tl.float32) * (STEP * STEPS)
    total = tl.zeros((BLOCK,), tl.float32)
    for _ in tl.range(0, STEPS, AT_ONCE):
        for j in tl.static_range(AT_ONCE):
            total += tl.exp2(power - j * STEP)
        power -= AT_ONCE * STEP
    tl.store(y + places, (total / STEPS).to(y.dtype.element_ty), mask=inside)
