"""The gradient of softmax along the rows of an M×N matrix."""

from __future__ import annotations

from typing import ClassVar

import torch
from typing_extensions import override

from ..kernel import Array, Operation, Shape


class SoftmaxBackward(Operation):
    """dx = y∘(dy − Σ y∘dy), row by row, from softmax's answer y and the gradient dy of it."""

    name = "softmax_backward"
    inputs = (Array("y"), Array("dy"))
    outputs = (Array("dx"),)
    row_sums: ClassVar = {"dx": 0.0}
    roof = "add"

    @override
    def make_inputs(
        self, shape: Shape, dtype: torch.dtype, device: torch.device | str, seed: int
    ) -> tuple[torch.Tensor, ...]:
        """Softmax of standard normal values, and a standard normal gradient."""
        x, dy = super().make_inputs(shape, dtype, device, seed)
        return torch.softmax(x, dim=-1), dy

    @override
    def reference(self, y: torch.Tensor, dy: torch.Tensor) -> torch.Tensor:
        """The gradient in float64."""
        y, dy = y.double(), dy.double()
        return y * (dy - (y * dy).sum(-1, keepdim=True))

    @override
    def magnitude(self, y: torch.Tensor, dy: torch.Tensor) -> torch.Tensor:
        """See `Operation`: y∘(|dy| + Σ |y∘dy|)."""
        y, dy = y.double().abs(), dy.double().abs()
        return y * (dy + (y * dy).sum(-1, keepdim=True))


SOFTMAX_BACKWARD = SoftmaxBackward()
