"""Reading by Triton: the roof of operations that write next to nothing.

Passes: one; reads MN, writes M·⌈N/4096⌉.
On chip: a tile, one stretch of a row and more.
Source: the tiles of `copy_triton`, with a maximum where that has a store.

A program takes stretches of 4096 elements, of narrow rows whole ones, and asks for all of them
before it needs the first. Loads are of 16 bytes wherever a row begins: where rows are no whole
vectors, the few elements before a stretch's first vector and after its last are loaded one by one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import sympy
import torch
from typing_extensions import override

from ..device import Device
from ..kernel import Kernel, Shape, power_of_two
from ..language import MOST_PROGRAMS, jit, next_power_of_two, tl
from ..launch import load_hint
from ..traffic import M, N, Traffic
from .operation import READ, STRETCH

VECTOR_BYTES = 16  # the widest load
WARP = 32  # lanes
MOST_THREAD_BYTES = 512  # in flight: half of a thread's registers
FEW_PROGRAMS = 1024  # about eight for each SM of a large card


@dataclass(frozen=True)
class ReadTriton(Kernel):
    """One program a tile.

    Attributes:
        thread_bytes: Bytes that each thread asks for at once, where rows have as many.
        num_warps: Warps per program; more where a stretch would fill more than half the registers.
        keep: Whether loads ask for `evict_last`; None decides by size (`kernels.launch`).
    """

    operation = READ
    backend = "triton"
    dtypes = (*Kernel.dtypes, torch.float64)
    moves = Traffic(reads=M * N, writes=M * sympy.ceiling(N / sympy.Integer(STRETCH)))

    thread_bytes: Annotated[int, power_of_two(VECTOR_BYTES, MOST_THREAD_BYTES)] = 64
    num_warps: Annotated[int, power_of_two(1, 32)] = 4
    keep: bool | None = False

    @override
    def unsupported(self, shape: Shape, dtype: torch.dtype, device: Device) -> str | None:
        reason = super().unsupported(shape, dtype, device)
        if reason is not None:
            return reason
        stretches = shape[0] * -(-shape[1] // STRETCH)
        if stretches > MOST_PROGRAMS:
            return f"counts stretches of {STRETCH} elements to {MOST_PROGRAMS}, not {stretches}"
        return None

    @override
    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        rows, cols = x.shape
        parts = -(-cols // STRETCH)
        y = x.new_empty((rows, parts))
        if y.numel() > 0:
            x = x if x.stride(1) == 1 or cols == 1 else x.contiguous()
            vector = VECTOR_BYTES // x.element_size()
            shift = x.data_ptr() % VECTOR_BYTES // x.element_size()
            whole = cols % vector == x.stride(0) % vector == shift == 0
            block, units, warps = self._tile(x.shape, x.element_size())
            _read[(-(-y.numel() // units),)](
                x,
                y,
                y.numel(),
                parts,
                cols // vector if whole else cols,
                x.stride(0) // vector if whole else x.stride(0),
                shift,
                STRETCH=STRETCH,
                UNITS=units,
                BLOCK=block,
                VECTOR=vector,
                WHOLE=whole,
                LOADS=load_hint(x, self.keep),
                num_warps=warps,
            )
        return y

    @override
    def on_chip_elements(self) -> sympy.Expr:
        """See `Kernel`; of float32, where rows are wide."""
        return sympy.Integer(max(STRETCH, WARP * self.num_warps * self.thread_bytes // 4))

    def _tile(self, shape: Shape, itemsize: int) -> tuple[int, int, int]:
        """Elements of a stretch, padded; stretches of a program; its warps: powers of two."""
        vector = VECTOR_BYTES // itemsize
        block = max(min(next_power_of_two(shape[1]), STRETCH), vector)
        warps = max(self.num_warps, block * itemsize // (WARP * MOST_THREAD_BYTES))
        units = max(WARP * warps * self.thread_bytes // (block * itemsize), 1)
        stretches = shape[0] * -(-shape[1] // STRETCH)
        return block, max(min(units, next_power_of_two(stretches // FEW_PROGRAMS)), 1), warps


@jit
def _bounds(
    stretch: tl.tensor,
    stretches: tl.tensor,
    parts: tl.tensor,
    cols: tl.tensor,
    row_stride: tl.tensor,
    shift: tl.tensor,
    STRETCH: tl.constexpr,
    VECTOR: tl.constexpr,
) -> tl.tuple:
    """Where stretches begin, their whole vectors begin, these end, and stretches end.

    Elements are counted from ``shift`` before the matrix, an address that 16 divides.
    """
    part = stretch % parts
    start = (stretch // parts).to(tl.int64) * row_stride + part * STRETCH + shift
    length = tl.where(stretch < stretches, tl.minimum(cols - part * STRETCH, STRETCH), 0)
    first = (start + VECTOR - 1) // VECTOR * VECTOR
    last = (start + length) // VECTOR * VECTOR
    return start, first, tl.maximum(first, last), start + length


@jit
def _read(
    x: tl.tensor,
    y: tl.tensor,
    stretches: tl.tensor,
    parts: tl.tensor,
    cols: tl.tensor,
    row_stride: tl.tensor,
    shift: tl.tensor,
    STRETCH: tl.constexpr,
    UNITS: tl.constexpr,
    BLOCK: tl.constexpr,
    VECTOR: tl.constexpr,
    WHOLE: tl.constexpr,
    LOADS: tl.constexpr,
) -> None:
    # Triton's maximum passes over NaN, as the hardware's does.
    # `cols` and `row_stride` are in vectors where rows are WHOLE ones: of an argument Triton knows
    # no more than whether 16 divides it, and lengths times VECTOR show that no vector is cut
    stretch = tl.program_id(0) * UNITS + tl.arange(0, UNITS)
    inside = stretch < stretches
    lane = tl.arange(0, BLOCK)[None, :]
    if WHOLE:
        vectors: tl.constexpr = STRETCH // VECTOR
        part = stretch % parts
        start = ((stretch // parts).to(tl.int64) * row_stride + part * vectors) * VECTOR
        count = tl.where(inside, tl.minimum(cols - part * vectors, vectors), 0) * VECTOR
        values = tl.load(x + start[:, None] + lane, mask=lane < count[:, None],
                         other=float("-inf"), eviction_policy=LOADS)  # fmt: skip
        largest = tl.max(values, 1)
    else:
        x = tl.multiple_of(x - shift, 16)
        _, first, last, _ = _bounds(
            stretch, stretches, parts, cols, row_stride, shift, STRETCH, VECTOR
        )
        count = ((last - first) // VECTOR).to(tl.int32) * VECTOR
        values = tl.load(x + first[:, None] + lane, mask=lane < count[:, None],
                         other=float("-inf"), eviction_policy=LOADS)  # fmt: skip
        # The elements left on both sides, along the other dimension and in turn: else a lane would
        # get as many neighbours as it has of the vectors
        start, first, last, end = _bounds(
            stretch[None, :], stretches, parts, cols, row_stride, shift, STRETCH, VECTOR
        )
        side = tl.arange(0, 2 * VECTOR)[:, None]
        before = side % 2 == 0
        place = tl.where(before, start, last) + side // 2
        until = tl.where(before, tl.minimum(first, end), end)
        ends = tl.max(tl.load(x + place, mask=place < until, other=float("-inf")), 0)
        largest = tl.maximum(tl.max(values, 1), ends)
    tl.store(y + stretch, largest.to(y.dtype.element_ty), mask=inside)
