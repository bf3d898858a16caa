"""An online softmax that forgets to rescale its sum when the maximum rises."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from kernels.language import jit, tl
from kernels.softmax.online import Online
from kernels.softmax.tiles import empty_result, load_tile, store_tile


@dataclass(frozen=True)
class Forgetful(Online):
    """Right where the first tile holds the maximum, wrong elsewhere; its traffic is online's."""

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        y = empty_result(x)
        rows, cols = x.shape
        _forgetful[(rows,)](x, y, cols, x.stride(0), BLOCK=self.block_size)
        return y


@jit
def _forgetful(
    x: tl.tensor, y: tl.tensor, cols: tl.tensor, row_stride: tl.tensor, BLOCK: tl.constexpr
) -> None:
    row = tl.program_id(0).to(tl.int64)
    x += row * row_stride
    y += row * cols
    tiles = tl.cdiv(cols, BLOCK)

    maximum = tl.full((), float("-inf"), tl.float32)
    total = tl.full((), 0.0, tl.float32)
    for tile in range(tiles):
        values = load_tile(x, tile, cols, 1, BLOCK, tl.float32, "")
        maximum = tl.maximum(maximum, tl.max(values))
        total += tl.sum(tl.exp(values - maximum))

    for tile in range(tiles):
        values = load_tile(x, tile, cols, 1, BLOCK, tl.float32, "")
        store_tile(y, tile, tl.exp(values - maximum) / total, cols, BLOCK, "")
