"""A kernel slowed down by a known share: what a comparison must find, or must not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import sympy
import torch

from kernels.kernel import Kernel
from kernels.softmax.fused_row import FusedRow
from kernels.softmax.operation import SOFTMAX
from kernels.softmax.torch_softmax import TorchSoftmax
from kernels.traffic import M, N, Traffic


@dataclass(frozen=True)
class Slowed(Kernel):
    """A row softmax that also works on ``share`` more rows, which it then leaves out.

    Attributes:
        share: Of the rows, 0.02 for 2 % more of the same work in the same launch.
    """

    operation = SOFTMAX
    backend = "eager"  # Triton on a card; PyTorch where there is none, without the interpreter

    share: float = 0.0

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return self.prepare(x)(x)

    def prepare(self, x: torch.Tensor) -> Callable[[torch.Tensor], torch.Tensor]:
        rows = x.shape[0]
        taller = torch.cat([x, x[: round(rows * self.share)]])
        kernel = FusedRow() if x.is_cuda else TorchSoftmax()
        return lambda x: kernel(taller)[:rows]

    def traffic(self) -> Traffic:
        return Traffic(M * N, M * N)

    def on_chip_elements(self) -> sympy.Expr:
        return N
