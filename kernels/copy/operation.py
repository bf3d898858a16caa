"""Copy of an M×N matrix: what it takes to read every element once and write it once."""

from __future__ import annotations

import torch

from ..kernel import Operation, Shape
from ..traffic import M, N, Traffic


class Copy(Operation):
    """y = x, in memory of its own."""

    name = "copy"
    compulsory = Traffic(reads=M * N, writes=M * N)
    exact = True

    def make_input(
        self, shape: Shape, dtype: torch.dtype, device: torch.device | str, seed: int
    ) -> torch.Tensor:
        """Standard normal values, as for softmax."""
        generator = torch.Generator(device).manual_seed(seed)
        return torch.randn(shape, dtype=dtype, device=device, generator=generator)

    def reference(self, x: torch.Tensor) -> torch.Tensor:
        """The input in float64, shape of ``x``."""
        return x.double()


COPY = Copy()
