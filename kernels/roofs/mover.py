"""The roofs of moving memory as Triton kernels: copies, a copy over itself, and sums.

Passes: one; a copy reads MN and writes MN: 2MN; the sum reads 2MN and writes MN: 3MN; attention_io
reads 384M and writes 128M: 512M elements, whatever N.
On chip: a tile of `block_size` elements, of each matrix that is read.
Source: Triton's tutorial 01 (vector addition), for a copy less the addition.

A program reads one tile of a matrix, or the same tile of several, and writes the tile or the sum,
to a new matrix or over its input. A contiguous matrix is one long row of 16-byte vectors with a
short tail, so that the time depends on the bytes and not on the width.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import sympy
import torch
from typing_extensions import override

from ..attention.operation import no_heads
from ..device import Device
from ..kernel import Kernel, Shape, power_of_two, variant
from ..language import LARGEST_BLOCK, MOST_PROGRAMS, jit, tl
from ..launch import load_hint, store_hint
from ..traffic import M, N, Traffic
from .operation import ADD, ATTENTION_IO, COPY

VECTOR_BYTES = 16  # the widest load
THREAD_BYTES = 32  # of a tile, where its elements are not given


@dataclass(frozen=True)
class Mover(Kernel):
    """One program per tile.

    Attributes:
        block_size: Elements of a tile; None takes 32 bytes per thread, two loads of 16: the fastest
            copy from 64 MB to 2 GB on an H200 (docs/lab_book.md).
        num_warps: Warps per program.
        keep: Whether loads ask for `evict_last`; None decides by size (`kernels.launch`).
        keep_output: Whether stores ask for `evict_last`; None decides by size.
    """

    backend = "triton"
    dtypes = (*Kernel.dtypes, torch.float64)

    block_size: Annotated[int | None, power_of_two(1, LARGEST_BLOCK)] = 4096
    num_warps: Annotated[int, power_of_two(1, 32)] = 8
    keep: bool | None = False
    keep_output: bool | None = False

    @override
    def limits(self, shape: Shape, dtype: torch.dtype, device: Device) -> str | None:
        programs = shape[0] * -(-shape[1] // self._block(dtype))  # as for rows that are strided
        if programs > MOST_PROGRAMS:
            return f"starts a program a tile, and a launch takes {MOST_PROGRAMS}, not {programs}"
        return None

    @override
    def __call__(self, *matrices: torch.Tensor) -> torch.Tensor:
        return self.move(*matrices, out=matrices[0] if self.overwrites else None)

    def move(self, *matrices: torch.Tensor, out: torch.Tensor | None = None) -> torch.Tensor:
        """The one matrix, or the sum of several of a shape, in new memory or in ``out``."""
        x = matrices[0]
        if any(one.stride() != x.stride() for one in matrices):  # it steps through all alike
            matrices = tuple(one.contiguous() for one in matrices)
        y = torch.empty_like(x, memory_format=torch.contiguous_format) if out is None else out
        if x.numel() > 0:
            target, flat = y, all(one.is_contiguous() for one in (*matrices, y))
            if flat:
                target, matrices = y.view(1, -1), tuple(one.view(1, -1) for one in matrices)
            rows, cols = target.shape
            block = self._block(x.dtype)
            tiles = -(-cols // block)
            _move[(rows * tiles,)](
                matrices,
                target,
                tiles,
                cols,
                (0, 1, 0, 1) if flat else (*matrices[0].stride(), *target.stride()),
                BLOCK=block,
                VECTOR=min(VECTOR_BYTES // x.element_size(), block) if flat else 1,
                LOADS=load_hint(x, self.keep),
                STORES=store_hint(x, self.keep_output),
                num_warps=self.num_warps,
            )
        return y

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


@dataclass(frozen=True)
class AttentionIo(Mover):
    """The sum of three tensors, the roof of attention's memory; see `Mover`."""

    operation = ATTENTION_IO
    dtypes = Kernel.dtypes
    moves = Traffic(reads=3 * 128 * M, writes=128 * M)

    block_size: Annotated[int | None, power_of_two(1, LARGEST_BLOCK)] = 2048
    num_warps: Annotated[int, power_of_two(1, 32)] = 4

    @override
    def limits(self, shape: Shape, dtype: torch.dtype, device: Device) -> str | None:
        """See `Kernel`; also rows that are no whole number of heads."""
        return super().limits(shape, dtype, device) or no_heads(shape)

    @override
    def __call__(self, *matrices: torch.Tensor) -> torch.Tensor:
        heads = (x.reshape(-1, x.shape[-1]) for x in matrices)
        return self.move(*heads).view(matrices[0].shape)


@jit
def _move(
    matrices: tl.tuple,
    y: tl.tensor,
    tiles: tl.tensor,
    cols: tl.tensor,
    strides: tl.tuple,
    BLOCK: tl.constexpr,
    VECTOR: tl.constexpr,
    LOADS: tl.constexpr,
    STORES: tl.constexpr,
) -> None:
    # 64-bit offsets: a matrix of more than 2³¹ elements overflows 32-bit ones
    program = tl.program_id(0)
    row, tile = (program // tiles).to(tl.int64), (program % tiles).to(tl.int64)
    start, x_col, y_col = row * strides[0], strides[1], strides[3]
    y += row * strides[2]
    columns = tile * BLOCK + tl.arange(0, BLOCK)
    # a vector lies inside as a whole or not at all, else its elements would be loaded one by one
    inside = columns // VECTOR < cols // VECTOR
    values = _sum(matrices, start, columns * x_col, inside, LOADS)
    tl.store(y + columns * y_col, values, mask=inside, eviction_policy=STORES)
    if VECTOR > 1:
        first = cols // VECTOR * VECTOR
        if (tile == tiles - 1) & (first < cols):
            rest = first.to(tl.int64) + tl.arange(0, VECTOR)
            left = _sum(matrices, start, rest * x_col, rest < cols, "")
            tl.store(y + rest * y_col, left, mask=rest < cols)


@jit
def _sum(
    matrices: tl.tuple, row: tl.tensor, places: tl.tensor, inside: tl.tensor, HINT: tl.constexpr
) -> tl.tensor:
    """Elements of the one matrix, or of the sum in float32 (float64 for float64), rounded once."""
    values = tl.load(matrices[0] + row + places, mask=inside, eviction_policy=HINT)
    if len(matrices) > 1:
        dtype: tl.constexpr = values.dtype
        total = values.to(tl.float64 if dtype == tl.float64 else tl.float32)
        for i in tl.static_range(1, len(matrices)):
            more = tl.load(matrices[i] + row + places, mask=inside, eviction_policy=HINT)
            total += more.to(total.dtype)
        values = total.to(dtype)
    return values
