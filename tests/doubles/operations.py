"""Kernels of other forms than softmax's: of several inputs and outputs, and in place."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from kernels.cross_entropy.variants import LogprobEntropyTorch
from kernels.kernel import Kernel, Operation
from kernels.traffic import M, N, Traffic


@dataclass(frozen=True)
class TwoOutputs(LogprobEntropyTorch):
    """Two numbers of each row; ``wrong`` spoils the second."""

    wrong: bool = False

    def __call__(self, logits: torch.Tensor, target: torch.Tensor) -> tuple[torch.Tensor, ...]:
        logprob, entropy = super().__call__(logits, target)
        return logprob, entropy * 1.001 if self.wrong else entropy


class Grow(Operation):
    """y = 1000·x, which a few calls on its own answers make infinite."""

    name = "grow"

    def reference(self, x: torch.Tensor) -> torch.Tensor:
        return 1000 * x.double()


@dataclass(frozen=True)
class GrowInPlace(Kernel):
    """Leaves its answer in its input, as it says."""

    operation = Grow()
    backend = "torch"
    overwrites = "x"
    moves = Traffic(M * N, M * N)
    on_chip = N

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return x.mul_(1000)


class GrowInSilence(GrowInPlace):
    """Does not say so."""

    overwrites = None
