"""Reading by Triton: the roof of operations that write next to nothing.

Passes: one; reads MN, writes M·⌈N/4096⌉.
On chip: a tile, one stretch of a row and more.
Source: the tiles of `copy_triton`, with a maximum where that has a store.

A program takes stretches of 4096 elements, of narrow rows whole ones, and asks for all of them
before it needs the first. Loads are of 16 bytes wherever a row begins: where rows are no whole
vectors, the few elements before a stretch's first vector and after its last are loaded one by one.
"""

from __future__ import annotations

from collections import namedtuple
from dataclasses import dataclass
from typing import Annotated

import sympy
import torch
from typing_extensions import override

from ..device import Device
from ..kernel import Kernel, Shape, power_of_two, too_many
from ..language import jit, next_power_of_two, tl
from ..launch import load_hint
from ..traffic import M, N, Traffic, parts_of
from ..vectors import (
    LONGEST,
    At,
    ahead_of,
    end_columns,
    first_element,
    first_vector,
    layout,
    whole_vectors,
)
from .operation import READ, READ_AS_ONE

WARP = 32  # lanes
MOST_THREAD_BYTES = 512  # in flight: half of a thread's registers
FEW_PROGRAMS = 1024  # about eight for each SM of a large card


@dataclass(frozen=True)
class ReadTriton(Kernel):
    """One program a tile; more warps where a stretch would fill half the registers."""

    operation = READ
    backend = "triton"
    dtypes = (*Kernel.dtypes, torch.float64)
    moves = Traffic(reads=M * N, writes=M * parts_of(READ_AS_ONE))

    thread_bytes: Annotated[int, power_of_two(LONGEST, MOST_THREAD_BYTES)] = 64
    num_warps: Annotated[int, power_of_two(1, 32)] = 4
    keep: bool | None = False

    @override
    def limits(self, shape: Shape, dtype: torch.dtype, device: Device) -> str | None:
        """See `Kernel`; stretches are counted like programs."""
        return too_many(shape[0] * -(-shape[1] // READ_AS_ONE))

    @override
    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        rows, cols = x.shape
        parts = -(-cols // READ_AS_ONE)
        y = x.new_empty((rows, parts))
        if y.numel() > 0:
            x = x if x.stride(1) == 1 or cols == 1 else x.contiguous()
            plan = layout(x)
            block, units, warps = self._tile(x.shape, x.element_size())
            how = How(plan.vector, plan.ends, READ_AS_ONE, units, block, load_hint(x, self.keep))
            sizes = Sizes(y.numel(), parts, plan.cols)
            grid = (-(-y.numel() // units),)
            _read[grid](plan.bases[0], y, sizes, plan.places[0], HOW=how, num_warps=warps)
        return y

    @override
    def on_chip_elements(self) -> sympy.Expr:
        """See `Kernel`; of float32, where rows are wide."""
        return sympy.Integer(max(READ_AS_ONE, WARP * self.num_warps * self.thread_bytes // 4))

    def _tile(self, shape: Shape, itemsize: int) -> tuple[int, int, int]:
        """Elements of a stretch, padded; stretches of a program; its warps: powers of two."""
        vector = LONGEST // itemsize
        block = max(min(next_power_of_two(shape[1]), READ_AS_ONE), vector)
        warps = max(self.num_warps, block * itemsize // (WARP * MOST_THREAD_BYTES))
        units = max(WARP * warps * self.thread_bytes // (block * itemsize), 1)
        stretches = shape[0] * -(-shape[1] // READ_AS_ONE)
        return block, max(min(units, next_power_of_two(stretches // FEW_PROGRAMS)), 1), warps


# The constants of a launch; see `kernels.vectors.Layout` and `ReadTriton._tile`
How = namedtuple("How", "vector ends stretch units block loads")
# Stretches in all, stretches of a row, and a row's length: see `kernels.vectors.Layout`
Sizes = namedtuple("Sizes", "stretches parts cols")


@jit
def _read(x: tl.tensor, y: tl.tensor, sizes: Sizes, at: At, HOW: tl.constexpr) -> None:
    # Triton's maximum passes over NaN, as the hardware's does.
    VECTOR: tl.constexpr = HOW.vector
    LOADS: tl.constexpr = HOW.loads
    UNITS: tl.constexpr = HOW.units
    BLOCK: tl.constexpr = HOW.block
    MOST: tl.constexpr = HOW.stretch if HOW.ends else HOW.stretch // VECTOR
    stretch = tl.program_id(0) * UNITS + tl.arange(0, UNITS)
    inside = stretch < sizes.stretches
    part, row = stretch % sizes.parts, (stretch // sizes.parts).to(tl.int64)
    length = tl.where(inside, tl.minimum(sizes.cols - part * MOST, MOST), 0)
    ahead = tl.minimum(ahead_of(at, row, HOW), length)
    lane = tl.arange(0, BLOCK)[None, :]
    mask = lane < (whole_vectors(length, ahead, HOW) * VECTOR)[:, None]
    begin = first_vector(x, at, row, HOW) + part * HOW.stretch
    values = tl.load(begin[:, None] + lane, mask=mask, other=float("-inf"), eviction_policy=LOADS)
    if HOW.ends:
        columns = end_columns(length, ahead, VECTOR)
        first = first_element(x, at, row, HOW) + part * HOW.stretch
        ends = tl.load(first[None, :] + columns, mask=columns >= 0, other=float("-inf"))
        largest = tl.maximum(tl.max(values, 1), tl.max(ends, 0))
    else:
        largest = tl.max(values, 1)
    tl.store(y + stretch, largest.to(y.dtype.element_ty), mask=inside)
