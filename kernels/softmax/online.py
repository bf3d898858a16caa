"""Online softmax in two passes: maximum and sum together, then the quotients.

Passes: reads 2MN, writes MN: 3MN. The first pass keeps a running maximum m and a running sum d,
and whenever a tile C raises the maximum, rescales what was summed so far:
m' = max(m, max C), d' = d·exp(m − m') + Σ exp(C − m').
On chip: a tile of `block_size` elements, whatever N, so that any row fits.
At DRAM: 3MN is the request. The second pass finds in L2 the elements that other rows have not
evicted since the first pass: its whole row if all rows in flight fit L2 (2MN at DRAM), nothing if
they are many times larger. `rows_in_flight` caps these rows, but leaves SMs idle once a few rows
fill L2. `reverse` begins the second pass with the tiles that the first pass read last. `evict` asks
L2 to keep data that is read again and to evict the rest first.
Source: Milakov & Gimelshein 2018, arXiv 1805.02867, Algorithm 3, tile by tile as in flash
attention (Dao et al. 2022, arXiv 2205.14135).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import sympy
import torch
from typing_extensions import override

from ..device import Device, device_of
from ..kernel import Kernel, Shape, one_of, power_of_two, whole_number
from ..language import LARGEST_BLOCK, MOST_PROGRAMS, jit, tl
from ..launch import launch
from ..traffic import M, N, Traffic
from .operation import SOFTMAX
from .tiles import Accumulate, empty_result, load_tile, store_tile, too_many_rows, triton_statistics

SCRATCH_BYTES = 256  # of a block's shared memory, for the reductions of at most 32 warps

# Hints for the loads of the first pass, the loads of the second, and its stores
EVICT = {
    "none": ("", "", ""),
    "first": ("", "evict_first", "evict_first"),
    "last_first": ("evict_last", "evict_first", "evict_first"),
}


@dataclass(frozen=True)
class Online(Kernel):
    """One row per program at a time, two loops over its tiles.

    Attributes:
        block_size: Elements of a tile.
        num_warps: Warps per program.
        num_stages: Tiles in flight in a loop, through shared memory; 1 loads one after the other,
            straight to registers.
        reverse: Whether the second pass takes the tiles backwards.
        evict: Eviction hints. ``"none"``; ``"first"``: loads and stores of the second pass are
            evicted first; ``"last_first"``: also, loads of the first pass are evicted last.
        rows_in_flight: The most rows in flight, one program each; ``"l2"``: as many as half of the
            device's L2 holds; None: all, as the device schedules them.
        accumulate: dtype of the statistics, ``"float32"`` or ``"float64"``.
    """

    operation = SOFTMAX
    backend = "triton"
    dtypes = (*Kernel.dtypes, torch.float64)
    moves = Traffic(reads=2 * M * N, writes=M * N)

    block_size: Annotated[int, power_of_two(1, LARGEST_BLOCK)] = 1024
    num_warps: Annotated[int, power_of_two(1, 32)] = 4
    num_stages: Annotated[int, whole_number(1, 16)] = 1
    reverse: bool = False
    evict: Annotated[str, one_of(*EVICT)] = "none"
    rows_in_flight: Annotated[int | str | None, whole_number(1, MOST_PROGRAMS, "l2")] = None
    accumulate: Accumulate = "float32"

    @override
    def unsupported(self, shape: Shape, dtype: torch.dtype, device: Device) -> str | None:
        """See `Kernel`; also more tiles in flight than a block's shared memory holds."""
        reason = super().unsupported(shape, dtype, device) or too_many_rows(shape)
        # all tiles of the pipeline but the one that is worked on, which has moved to registers
        staged = (self.num_stages - 1) * self.block_size * dtype.itemsize
        room = device.shared_bytes_per_block
        if reason is None and room is not None and staged + SCRATCH_BYTES > room:
            return (
                f"num_stages={self.num_stages} with tiles of {self.block_size} takes {staged} "
                f"bytes of shared memory, and this device gives a block {room}"
            )
        return reason

    @override
    def __call__(self, x: torch.Tensor, y: torch.Tensor | None = None) -> torch.Tensor:
        y = empty_result(x) if y is None else y
        if x.numel() > 0:
            rows, cols = x.shape
            programs = self._programs(x)
            first_load, second_load, store = EVICT[self.evict]
            launch(
                _online,
                (programs,),
                (x, y, rows, cols, x.stride(0), x.stride(1)),
                {
                    "BLOCK": self.block_size,
                    "STAGES": self.num_stages,
                    "REVERSE": self.reverse,
                    "CAPPED": programs < rows,
                    "FIRST_LOAD": first_load,
                    "SECOND_LOAD": second_load,
                    "STORE": store,
                    "STATISTICS": triton_statistics(x.dtype, self.accumulate),
                },
                num_warps=self.num_warps,
            )
        return y

    @override
    def on_chip_elements(self) -> sympy.Expr:
        return sympy.Integer(self.block_size)

    def _programs(self, x: torch.Tensor) -> int:
        cap = self.rows_in_flight
        if cap == "l2":
            cap = rows_in_l2(x.shape[1] * x.element_size(), device_of(x))
        return x.shape[0] if cap is None else min(x.shape[0], int(cap))


def rows_in_l2(row_bytes: int, device: Device) -> int | None:
    """Rows that half of L2 holds, at least one; None where the device's L2 is not known.

    The other half is for stores, and for lines that lie in both partitions of a large L2.
    """
    return None if device.l2_bytes is None else max(1, device.l2_bytes // 2 // row_bytes)


@jit
def _online(
    x: tl.tensor,
    y: tl.tensor,
    rows: tl.tensor,
    cols: tl.tensor,
    row_stride: tl.tensor,
    col_stride: tl.tensor,
    BLOCK: tl.constexpr,
    STAGES: tl.constexpr,
    REVERSE: tl.constexpr,
    CAPPED: tl.constexpr,
    FIRST_LOAD: tl.constexpr,
    SECOND_LOAD: tl.constexpr,
    STORE: tl.constexpr,
    STATISTICS: tl.constexpr,
) -> None:
    tiles = tl.cdiv(cols, BLOCK)
    first = tl.program_id(0).to(tl.int64)
    # a program for each row makes a loop of one step, which the compiler takes away
    end, stride = first + 1, 1
    if CAPPED:
        end, stride = tl.cast(rows, tl.int64), tl.num_programs(0).to(tl.int64)
    for index in tl.range(first, end, stride, num_stages=1):
        row = tl.cast(index, tl.int64)  # Triton's interpreter counts in plain integers
        source = x + row * row_stride
        target = y + row * cols

        maximum = tl.full((), float("-inf"), STATISTICS)
        total = tl.full((), 0.0, STATISTICS)
        for tile in tl.range(tiles, num_stages=STAGES):
            values = load_tile(source, tile, cols, col_stride, BLOCK, STATISTICS, FIRST_LOAD)
            raised = tl.maximum(maximum, tl.max(values))
            # As long as all is -inf, -inf - -inf would be NaN: any finite shift gives the sum 0
            shift = tl.where(raised == float("-inf"), 0.0, raised)
            total = total * tl.exp(maximum - shift) + tl.sum(tl.exp(values - shift))
            maximum = raised

        for step in tl.range(tiles, num_stages=STAGES):
            tile = step
            if REVERSE:
                tile = tiles - 1 - step
            values = load_tile(source, tile, cols, col_stride, BLOCK, STATISTICS, SECOND_LOAD)
            store_tile(target, tile, tl.exp(values - maximum) / total, cols, BLOCK, STORE)
