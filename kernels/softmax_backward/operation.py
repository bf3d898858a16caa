"""The gradient of softmax along the last dimension of an M×N matrix."""

from __future__ import annotations

import torch

from ..kernel import Operation, Shape
from ..traffic import M, N, Traffic


class SoftmaxBackward(Operation):
    """dx = y∘(dy − Σ y∘dy), row by row, from softmax's answer y and the gradient dy of it.

    An input holds both, stacked: shape (2, M, N), first y, then dy. A block of whole rows of it is
    ``x[..., rows, :]``.
    """

    name = "softmax_backward"
    compulsory = Traffic(reads=2 * M * N, writes=M * N)
    roof = "add"

    def make_input(
        self, shape: Shape, dtype: torch.dtype, device: torch.device | str, seed: int
    ) -> torch.Tensor:
        """Softmax of standard normal values, and a standard normal gradient; shape (2, M, N)."""
        generator = torch.Generator(device).manual_seed(seed)
        x = torch.randn((2, *shape), dtype=dtype, device=device, generator=generator)
        x[0] = torch.softmax(x[0], dim=-1)
        return x

    def reference(self, x: torch.Tensor) -> torch.Tensor:
        """The gradient in float64, shape (m, N) for ``x`` of shape (2, m, N)."""
        y, dy = x[0].double(), x[1].double()
        return y * (dy - (y * dy).sum(-1, keepdim=True))

    def magnitude(self, x: torch.Tensor) -> torch.Tensor:
        """The size of the terms that add up to the answer: y∘(|dy| + Σ |y∘dy|), as `reference`.

        Where they cancel, rounding leaves an error of their spacing and not of the answer's.
        """
        y, dy = x[0].double().abs(), x[1].double().abs()
        return y * (dy + (y * dy).sum(-1, keepdim=True))


SOFTMAX_BACKWARD = SoftmaxBackward()
