"""The online softmax with an output row beside maximum and sum, in one pass: how attention works.

Passes: one over the scores and the vectors, MN + 4MN read and 4M written. Where a tile raises the
maximum, what was summed so far is rescaled, the row of the output as well as the sum:
o' = o·exp(m − m') + Σ exp(x − m')·v; at the end y = o/d. No probability is ever written.
On chip: a tile of `block_size` scores and as many vectors.
It is here to be read, and stepped through in the report: `attention_online` is the same by tiles of
many rows, which matrix units multiply.
Source: arXiv 2205.14135 (Dao et al. 2022), Algorithm 1, for a row.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import torch
from typing_extensions import override

from ..kernel import Kernel, power_of_two
from ..language import jit, tl
from ..launch import launch
from ..traffic import BLOCK_SIZE, M, N, Traffic
from .operation import WEIGHTED, WIDTH


@dataclass(frozen=True)
class WeightedOnline(Kernel):
    """One row per program."""

    operation = WEIGHTED
    backend = "triton"
    row_a_program = True
    moves = Traffic(reads=(1 + WIDTH) * M * N, writes=WIDTH * M)
    on_chip = (1 + WIDTH) * BLOCK_SIZE

    block_size: Annotated[int, power_of_two(1, 1 << 15)] = 1024
    num_warps: Annotated[int, power_of_two(1, 32)] = 4

    @override
    def __call__(self, x: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        y = torch.empty(x.shape[0], WIDTH, dtype=x.dtype, device=x.device)
        if x.numel() == 0:
            y.zero_()
        else:
            given = (x.contiguous(), v.contiguous(), y, x.shape[1])
            constants = {"BLOCK": self.block_size, "WIDTH": WIDTH}
            launch(_weighted, (x.shape[0],), given, constants, num_warps=self.num_warps)
        return y


@jit
def _weighted(
    x: tl.tensor,
    v: tl.tensor,
    y: tl.tensor,
    cols: tl.tensor,
    BLOCK: tl.constexpr,
    WIDTH: tl.constexpr,
) -> None:
    row, places = tl.program_id(0).to(tl.int64), tl.arange(0, WIDTH)
    maximum = tl.full((), float("-inf"), tl.float32)
    total = tl.full((), 0.0, tl.float32)
    output = tl.full((WIDTH,), 0.0, tl.float32)
    for tile in tl.range(tl.cdiv(cols, BLOCK)):
        columns = tl.cast(tile, tl.int64) * BLOCK + tl.arange(0, BLOCK)
        inside = columns < cols
        scores = tl.load(x + row * cols + columns, mask=inside, other=float("-inf"))
        scores = scores.to(tl.float32)
        raised = tl.maximum(maximum, tl.max(scores))
        # as long as all is -inf, any finite shift gives the sum 0
        shift = tl.where(raised == float("-inf"), 0.0, raised)
        kept = tl.exp(maximum - shift)
        p = tl.exp(scores - shift)
        total = total * kept + tl.sum(p)
        maximum = raised
        vectors = v + columns[:, None] * WIDTH + places[None, :]
        values = tl.load(vectors, mask=inside[:, None], other=0.0).to(tl.float32)
        output = output * kept + tl.sum(p[:, None] * values, 0)
    tl.store(y + row * WIDTH + places, (output / total).to(y.dtype.element_ty))
