"""The gradients of softmax and log-softmax along the rows of an M×N matrix."""

from __future__ import annotations

from collections.abc import Callable
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
    function: ClassVar[Callable[..., torch.Tensor]] = staticmethod(torch.softmax)

    @override
    def make_inputs(
        self, shape: Shape, dtype: torch.dtype, device: torch.device | str, seed: int
    ) -> tuple[torch.Tensor, ...]:
        """The function's answer for standard normal values, and a standard normal gradient."""
        x, dy = super().make_inputs(shape, dtype, device, seed)
        return self.function(x, dim=-1), dy

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


class LogSoftmaxBackward(SoftmaxBackward):
    """dx = dy − exp(y)·Σ dy, row by row, from log-softmax's answer y and the gradient dy of it."""

    name = "log_softmax_backward"
    row_sums: ClassVar = {}  # exp(y) of a rounded y does not add up to 1
    function = staticmethod(torch.log_softmax)

    @override
    def reference(self, y: torch.Tensor, dy: torch.Tensor) -> torch.Tensor:
        """The gradient in float64."""
        dy = dy.double()
        return dy - y.double().exp() * dy.sum(-1, keepdim=True)

    @override
    def magnitude(self, y: torch.Tensor, dy: torch.Tensor) -> torch.Tensor:
        """See `Operation`: |dy| + exp(y)·Σ |dy|."""
        dy = dy.double().abs()
        return dy + y.double().exp() * dy.sum(-1, keepdim=True)


SOFTMAX_BACKWARD, LOG_SOFTMAX_BACKWARD = SoftmaxBackward(), LogSoftmaxBackward()
