"""The layers of a call of `softmax(x)` whose host time is compared with PyTorch's own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from .functions import softmax, softmax_operator

SHAPE = (128, 256)

Layer = tuple[str, str, Callable[[], Any]]  # name, the one it is compared with, a call


def layers(device: str) -> list[Layer]:
    """The calls that are timed, each PyTorch's first."""
    x = torch.randn(SHAPE, device=device)
    leaf = x.clone().requires_grad_()
    dy = torch.randn_like(x)

    def both(function: Callable[..., torch.Tensor]) -> Callable[[], Any]:
        return lambda: torch.autograd.grad(function(leaf, -1), leaf, dy)

    forward, backward = "torch.softmax, requires_grad", "torch.softmax, forward and backward"
    return [
        ("torch.softmax", "torch.softmax", lambda: torch.softmax(x, -1)),
        ("plain function", "torch.softmax", lambda: softmax(x)),
        ("operator", "torch.softmax", lambda: softmax_operator(x, -1, 1.0, x.dtype)),
        (forward, forward, lambda: torch.softmax(leaf, -1)),
        ("autograd, forward", forward, lambda: softmax(leaf)),
        (backward, backward, both(torch.softmax)),
        ("autograd, forward and backward", backward, both(softmax)),
    ]
