"""The sum of three tensors by Triton: the roof of attention's memory.

Passes: one; reads 384M, writes 128M: 512M elements, whatever N.
On chip: three tiles of `block_size` elements.
Source: Triton's tutorial 01 (vector addition), with one more vector.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import sympy
import torch
from typing_extensions import override

from ..device import Device
from ..kernel import Kernel, Shape, power_of_two
from ..language import LARGEST_BLOCK, jit, tl
from ..launch import launch
from ..softmax.tiles import empty_result
from ..traffic import M, Traffic
from .operation import ATTENTION_IO, no_heads


@dataclass(frozen=True)
class AttentionIo(Kernel):
    """One program a tile.

    Attributes:
        block_size: Elements of a tile.
        num_warps: Warps per program.
    """

    operation = ATTENTION_IO
    backend = "triton"
    moves = Traffic(reads=3 * 128 * M, writes=128 * M)

    block_size: Annotated[int, power_of_two(1, LARGEST_BLOCK)] = 2048
    num_warps: Annotated[int, power_of_two(1, 32)] = 4

    @override
    def unsupported(self, shape: Shape, dtype: torch.dtype, device: Device) -> str | None:
        """See `Kernel`; also rows that are no whole number of heads."""
        return super().unsupported(shape, dtype, device) or no_heads(shape)

    @override
    def __call__(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        y = empty_result(q)
        given = [x.contiguous() for x in (q, k, v)]
        tiles, constants = -(-y.numel() // self.block_size), {"BLOCK": self.block_size}
        launch(_sum, (tiles,), (*given, y, y.numel()), constants, num_warps=self.num_warps)
        return y

    @override
    def on_chip_elements(self) -> sympy.Expr:
        return sympy.Integer(3 * self.block_size)


@jit
def _sum(
    q: tl.tensor, k: tl.tensor, v: tl.tensor, y: tl.tensor, count: tl.tensor, BLOCK: tl.constexpr
) -> None:
    places = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = places < count
    total = tl.load(q + places, mask=inside).to(tl.float32)
    total += tl.load(k + places, mask=inside).to(tl.float32)
    total += tl.load(v + places, mask=inside).to(tl.float32)
    tl.store(y + places, total.to(y.dtype.element_ty), mask=inside)
