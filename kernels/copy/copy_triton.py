"""Copy by Triton: the roof as a kernel of the same make as the variants sees it.

Passes: one; reads MN, writes MN: 2MN.
On chip: a tile of `block_size` elements.
Source: Triton's tutorial 01 (vector addition), less the addition.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from typing_extensions import override

from ..mover import Mover
from ..traffic import M, N, Traffic
from .operation import COPY


@dataclass(frozen=True)
class CopyTriton(Mover):
    """One program a tile; see `Mover`."""

    operation = COPY
    moves = Traffic(reads=M * N, writes=M * N)

    @override
    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return self.move(x)
