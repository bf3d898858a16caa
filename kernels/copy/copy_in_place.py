"""Copy over itself by Triton: the roof of kernels that leave their output where their input was.

Passes: one; reads MN, writes MN: 2MN.
On chip: a tile of `block_size` elements.
Source: `copy_triton`, which here stores each tile at the addresses that it was loaded from.

It is a kernel of the operation copy. So the copy roof of a sweep that has it is the faster of both,
and no kernel beats the roof only because it writes in place. No answer shows whether it stores at
all, because the matrix holds the answer from the start. Its counted requests show it.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from typing_extensions import override

from ..mover import Mover
from ..traffic import M, N, Traffic
from .operation import COPY


@dataclass(frozen=True)
class CopyInPlace(Mover):
    """One program a tile; see `Mover`."""

    operation = COPY
    overwrites = "x"
    moves = Traffic(reads=M * N, writes=M * N)

    @override
    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return self.move(x, out=x)
