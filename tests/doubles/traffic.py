"""Softmax variants that move more than they declare."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from kernels.softmax.fused_row import FusedRow
from kernels.softmax.three_pass import ThreePass
from kernels.traffic import M, N, Traffic


@dataclass(frozen=True)
class Reread(ThreePass):
    """Reads its row once more than it declares."""

    def traffic(self) -> Traffic:
        return Traffic(reads=2 * M * N, writes=M * N)


@dataclass(frozen=True)
class HiddenCopy(FusedRow):
    """Copies its input before the kernel sees it, as a stray `contiguous()` would."""

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return super().__call__(x.clone())
