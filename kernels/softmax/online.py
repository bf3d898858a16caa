"""Online softmax in two passes: maximum and sum together, then the quotients.

Passes: reads 2MN, writes MN: 3MN. The first pass keeps a running maximum m and a running sum d,
and whenever a tile C raises the maximum, rescales what was summed so far:
m' = max(m, max C), d' = d·exp(m − m') + Σ exp(C − m').
On chip: a tile of `block_size` elements, whatever N, so that any row fits.
At DRAM: 3MN is the request. The second pass finds in L2 the elements that other rows have not
evicted since the first pass: its whole row if all rows in flight fit L2 (2MN at DRAM), nothing if
they are many times larger. (A cap on the rows in flight leaves SMs idle once a few rows fill L2.)
`reverse` begins the second pass with the tiles that the first pass read last. `evict` asks
L2 to keep data that is read again and to evict the rest first.
Source: Milakov & Gimelshein 2018, arXiv 1805.02867, Algorithm 3, tile by tile as in flash
attention (Dao et al. 2022, arXiv 2205.14135).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import torch
from typing_extensions import override

from ..kernel import one_of, power_of_two
from ..language import LARGEST_BLOCK, jit, tl
from ..traffic import BLOCK_SIZE, M, N, Traffic
from .tiles import RowAProgram, Rows, load_tile, statistics_dtype, store_tile

# Hints for the loads of the first pass, the loads of the second, and its stores
EVICT = {
    "none": ("", "", ""),
    "first": ("", "evict_first", "evict_first"),
    "last_first": ("evict_last", "evict_first", "evict_first"),
}


@dataclass(frozen=True)
class Online(RowAProgram):
    """One row per program, two loops over its tiles."""

    moves = Traffic(reads=2 * M * N, writes=M * N)
    on_chip = BLOCK_SIZE

    block_size: Annotated[int, power_of_two(1, LARGEST_BLOCK)] = 1024
    num_warps: Annotated[int, power_of_two(1, 32)] = 4
    reverse: bool = False
    evict: Annotated[str, one_of(*EVICT)] = "none"
    accumulate: Annotated[str, one_of("float32", "float64")] = "float32"

    @override
    def into(self, x: torch.Tensor, y: torch.Tensor) -> None:
        wide = statistics_dtype(x.dtype, self.accumulate) == torch.float64
        self.launch(
            _online,
            x,
            y,
            self.num_warps,
            BLOCK=self.block_size,
            REVERSE=self.reverse,
            HINTS=EVICT[self.evict],
            STATISTICS=tl.float64 if wide else tl.float32,
        )


@jit
def _online(
    x: tl.tensor,
    y: tl.tensor,
    at: Rows,
    BLOCK: tl.constexpr,
    REVERSE: tl.constexpr,
    HINTS: tl.constexpr,
    STATISTICS: tl.constexpr,
) -> None:
    FIRST_LOAD: tl.constexpr = HINTS[0]
    SECOND_LOAD: tl.constexpr = HINTS[1]
    STORE: tl.constexpr = HINTS[2]
    tiles = tl.cdiv(at.cols, BLOCK)
    row = tl.program_id(0).to(tl.int64)
    x += row * at.row_stride
    y += row * at.cols

    maximum = tl.full((), float("-inf"), STATISTICS)
    total = tl.full((), 0.0, STATISTICS)
    for tile in tl.range(tiles, num_stages=1):
        values = load_tile(x, tile, at, BLOCK, STATISTICS, FIRST_LOAD)
        raised = tl.maximum(maximum, tl.max(values))
        # As long as all is -inf, -inf - -inf would be NaN: any finite shift gives the sum 0
        shift = tl.where(raised == float("-inf"), 0.0, raised)
        total = total * tl.exp(maximum - shift) + tl.sum(tl.exp(values - shift))
        maximum = raised

    for step in tl.range(tiles, num_stages=1):
        tile = step
        if REVERSE:
            tile = tiles - 1 - step
        values = load_tile(x, tile, at, BLOCK, STATISTICS, SECOND_LOAD)
        store_tile(y, tile, tl.exp(values - maximum) / total, at.cols, BLOCK, STORE)
