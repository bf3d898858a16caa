"""One row at a time: in one pass, in three passes, and the hybrid that takes one or the other.

Passes:
- fused_row: one; reads MN, writes MN: 2MN. The row is loaded once and stays in registers.
- fused, persistent: likewise. As many programs as the device holds at once stride over the rows,
  and each, while it works on one, has the next on their way through shared memory. The number of
  programs is derived, not tuned: a warm-up compilation reports the registers and shared memory of a
  program, and the device's limits give the number that fits an SM.
- three_pass: three; the maximum, the sum, then the quotients, each reading the row again: 4MN.
- hybrid: `fused_row` where N ≤ `block_size`, else `three_pass`.
On chip: fused_row's row, N elements padded to a power of two; a program gets more warps as rows
widen. Fused's row is there once in registers and once in shared memory for every row in flight. If
shared memory holds none, a row is loaded straight to registers, which may spill; no row is refused
for its size: the card decides whether it runs. Of three_pass a tile of `block_size` elements,
whatever N, so that any row fits. Each lane keeps the maximum and sum of its own columns; they are
combined once a pass.
Source: fused_row, "Softmax in OpenAI Triton", after the softmax of Triton's first tutorials; fused,
Triton's tutorial 02, "Fused Softmax"; three_pass, the textbook "safe softmax", Algorithm 2 of
Milakov & Gimelshein 2018, arXiv 1805.02867; hybrid, "Triton Kernels - Fused Softmax" (2025), whose
own block always held the row, so that its tiled path never ran.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

import torch
from typing_extensions import override

from ..device import Device, device_of, resident_programs
from ..kernel import Shape, power_of_two, whole_number
from ..language import LARGEST_BLOCK, jit, next_power_of_two, tl
from ..traffic import BLOCK_SIZE, M, N, Traffic, by_width
from .tiles import (
    RowAProgram,
    Rows,
    TritonSoftmax,
    empty_result,
    load_tile,
    rows_of,
    statistics_dtype,
    store_tile,
)

INTERPRETED_PROGRAMS = 8  # few, so that the interpreter too takes a program over several rows
ROOMY_SHARED_BYTES = 200_000  # tutorial 02: four stages above this, two below
SCRATCH_BYTES = 1024  # for reductions across warps, beside the rows: an upper bound


@dataclass(frozen=True)
class FusedRow(RowAProgram):
    """One program per row, which it holds whole."""

    num_warps: Annotated[int | None, power_of_two(1, 32)] = None

    @override
    def limits(self, shape: Shape, dtype: torch.dtype, device: Device) -> str | None:
        """See `Kernel`: a row that no register file holds."""
        block = next_power_of_two(shape[1])
        statistics = statistics_dtype(dtype)
        registers = block * statistics.itemsize // 4
        if device.registers_per_sm is not None and registers > device.registers_per_sm:
            name = str(statistics).removeprefix("torch.")
            return (
                f"a row of {shape[1]} takes {registers} registers (padded to {block}, as {name}), "
                f"and an SM of this device has {device.registers_per_sm}"
            )
        return too_wide(shape)

    @override
    def into(self, x: torch.Tensor, y: torch.Tensor) -> None:
        block = next_power_of_two(x.shape[1])
        self.launch(_fused_row, x, y, self.num_warps or warps_by_width(block), BLOCK=block)


@dataclass(frozen=True)
class Fused(TritonSoftmax):
    """Persistent programs, each holding one whole row at a time."""

    num_warps: Annotated[int, power_of_two(1, 32)] = 8
    num_stages: Annotated[int | None, whole_number(1, 16)] = None

    @override
    def limits(self, shape: Shape, dtype: torch.dtype, device: Device) -> str | None:
        """See `Kernel`: rows wider than any Triton tile."""
        return too_wide(shape)

    @override
    def prepare(self, x: torch.Tensor) -> Callable[..., torch.Tensor]:
        """A launch for inputs like ``x``, with derived stages and number of programs."""
        if x.numel() == 0:
            return empty_result
        sizes, device = (len(x), rows_of(x)), device_of(x)
        block = next_power_of_two(x.shape[1])
        stages = self._stages(block, x.dtype, device)
        options = {"BLOCK": block, "STAGES": stages, "num_warps": self.num_warps}
        compiled = _fused.warmup(x, empty_result(x), *sizes, **options, grid=(1,))
        programs = INTERPRETED_PROGRAMS
        if compiled is not None and device.sms is not None:
            compiled._init_handles()  # loads it, after which its registers are known
            shared = compiled.metadata.shared
            held = resident_programs(compiled.n_regs, self.num_warps, shared, device)
            programs = max(held, device.sms)
        programs = min(len(x), programs)

        def launch(x: torch.Tensor, y: torch.Tensor | None = None) -> torch.Tensor:
            y = empty_result(x) if y is None else y
            _fused[(programs,)](x, y, *sizes, **options)
            return y

        return launch

    def _stages(self, block: int, dtype: torch.dtype, device: Device) -> int:
        room = device.shared_bytes_per_block
        if self.num_stages is not None or room is None:
            return self.num_stages or 2
        stages = 4 if room > ROOMY_SHARED_BYTES else 2
        # all rows of the pipeline but the one that is worked on, which has moved to registers
        rows = (room - SCRATCH_BYTES) // (block * dtype.itemsize)
        return max(1, min(stages, rows + 1))


@dataclass(frozen=True)
class ThreePass(RowAProgram):
    """One program per row, three loops over its tiles."""

    moves = Traffic(reads=3 * M * N, writes=M * N)
    on_chip = BLOCK_SIZE

    block_size: Annotated[int, power_of_two(1, LARGEST_BLOCK)] = 1024
    num_warps: Annotated[int, power_of_two(1, 32)] = 4

    @override
    def into(self, x: torch.Tensor, y: torch.Tensor) -> None:
        self.launch(_three_pass, x, y, self.num_warps, BLOCK=self.block_size)


@dataclass(frozen=True)
class Hybrid(RowAProgram):
    """`fused_row` up to `block_size` columns, `three_pass` beyond."""

    moves = Traffic(reads=by_width(BLOCK_SIZE, M * N, 3 * M * N), writes=M * N)
    on_chip = by_width(BLOCK_SIZE, N, BLOCK_SIZE)

    block_size: Annotated[int, power_of_two(1, LARGEST_BLOCK)] = 4096
    num_warps: Annotated[int | None, power_of_two(1, 32)] = None

    @override
    def limits(self, shape: Shape, dtype: torch.dtype, device: Device) -> str | None:
        return self._path(shape[1]).limits(shape, dtype, device)

    @override
    def into(self, x: torch.Tensor, y: torch.Tensor) -> None:
        self._path(x.shape[1]).into(x, y)

    def _path(self, cols: int) -> FusedRow | ThreePass:
        if cols <= self.block_size:
            return FusedRow(num_warps=self.num_warps)
        warps = self.num_warps or warps_by_width(self.block_size)
        return ThreePass(self.block_size, warps)


def warps_by_width(block: int) -> int:
    """Warps for a row padded to ``block`` elements, as the source has it."""
    return 16 if block >= 4096 else 8 if block >= 2048 else 4


def too_wide(shape: Shape) -> str | None:
    """One sentence that says why a row cannot be one tile; None if it can."""
    if next_power_of_two(shape[1]) > LARGEST_BLOCK:
        return f"a row of {shape[1]} is more than Triton's largest block, {LARGEST_BLOCK}"
    return None


@jit
def _whole(x: tl.tensor, y: tl.tensor, row: tl.tensor, at: Rows, BLOCK: tl.constexpr) -> None:
    """Softmax of a row, by its number (64 bit), in one tile."""
    STATISTICS: tl.constexpr = tl.float64 if x.dtype.element_ty == tl.float64 else tl.float32
    values = load_tile(x + row * at.row_stride, 0, at, BLOCK, STATISTICS, "")
    # Triton's maximum passes over NaN; it comes back through the sum
    exponentials = tl.exp(values - tl.max(values))
    store_tile(y + row * at.cols, 0, exponentials / tl.sum(exponentials), at.cols, BLOCK, "")


@jit
def _fused_row(x: tl.tensor, y: tl.tensor, at: Rows, BLOCK: tl.constexpr) -> None:
    _whole(x, y, tl.program_id(0).to(tl.int64), at, BLOCK)


@jit
def _fused(
    x: tl.tensor, y: tl.tensor, rows: tl.tensor, at: Rows, BLOCK: tl.constexpr, STAGES: tl.constexpr
) -> None:
    for row in tl.range(tl.program_id(0), rows, tl.num_programs(0), num_stages=STAGES):
        _whole(x, y, tl.cast(row, tl.int64), at, BLOCK)


@jit
def _three_pass(x: tl.tensor, y: tl.tensor, at: Rows, BLOCK: tl.constexpr) -> None:
    STATISTICS: tl.constexpr = tl.float64 if x.dtype.element_ty == tl.float64 else tl.float32
    row = tl.program_id(0).to(tl.int64)
    x += row * at.row_stride
    y += row * at.cols
    tiles = tl.cdiv(at.cols, BLOCK)

    maxima = tl.full((BLOCK,), float("-inf"), STATISTICS)
    for tile in range(tiles):
        maxima = tl.maximum(maxima, load_tile(x, tile, at, BLOCK, STATISTICS, ""))
    # Triton's maximum passes over NaN; it comes back through the sum
    maximum = tl.max(maxima)

    sums = tl.zeros((BLOCK,), STATISTICS)
    for tile in range(tiles):
        sums += tl.exp(load_tile(x, tile, at, BLOCK, STATISTICS, "") - maximum)
    total = tl.sum(sums)

    for tile in range(tiles):
        values = load_tile(x, tile, at, BLOCK, STATISTICS, "")
        store_tile(y, tile, tl.exp(values - maximum) / total, at.cols, BLOCK, "")
