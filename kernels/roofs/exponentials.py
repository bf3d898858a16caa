"""Exponentials by Triton: the roof of the unit that takes them.

Passes: reads and writes an element for each 256 exponentials.
On chip: a tile of `block_size` elements.
An exponential comes with two additions, its argument's and its sum's, of which an SM does eight
times as many at once: nothing but the exponentials bounds it.
Source: this project.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import torch
from typing_extensions import override

from ..kernel import Kernel, power_of_two
from ..language import LARGEST_BLOCK, constant, jit, tl
from ..launch import launch
from ..softmax.tiles import empty_result
from ..traffic import BLOCK_SIZE, M, Traffic
from .operation import COLS, EXPONENTIALS, STRETCH

AT_ONCE = constant(16)  # steps of the loop's body
STEP = constant(1.4426950408889634 / STRETCH)
STEPS = constant(STRETCH)


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
