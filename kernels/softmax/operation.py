"""Softmax along the last dimension of an M×N matrix."""

from __future__ import annotations

import torch

from ..kernel import Operation, Shape
from ..traffic import M, N, Traffic


class Softmax(Operation):
    """y = exp(x - max(x)) / sum(exp(x - max(x))), row by row."""

    name = "softmax"
    compulsory = Traffic(reads=M * N, writes=M * N)

    def make_input(
        self, shape: Shape, dtype: torch.dtype, device: torch.device | str, seed: int
    ) -> torch.Tensor:
        """Standard normal values, as in the tutorials."""
        generator = torch.Generator(device).manual_seed(seed)
        return torch.randn(shape, dtype=dtype, device=device, generator=generator)

    def reference(self, x: torch.Tensor) -> torch.Tensor:
        """PyTorch's softmax in float64, shape of ``x``."""
        return torch.softmax(x.double(), dim=-1)


SOFTMAX = Softmax()
