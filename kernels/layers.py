"""The calls of public functions whose host time is compared with PyTorch's own.

Softmax layer by layer at a shape so small that its kernel is over before the next call is made; in
a loop at 4096×256 beside QuACK's function, where it is installed; and cross-entropy's functions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

from .cross_entropy.functions import cross_entropy
from .functions import softmax, softmax_operator

SHAPE, LOOP = (128, 256), (4096, 256)

Layer = tuple[str, str, Callable[[], Any]]  # name, the one it is compared with, a call


def layers(device: str) -> list[Layer]:
    """The calls that are timed, each PyTorch's first."""
    x, many = torch.randn(SHAPE, device=device), torch.randn(LOOP, device=device)
    target = torch.arange(SHAPE[0], device=device)
    leaf = x.clone().requires_grad_()
    dy = torch.randn_like(x)

    def both(function: Callable[..., torch.Tensor]) -> Callable[[], Any]:
        return lambda: torch.autograd.grad(function(leaf, -1), leaf, dy)

    def step(function: Callable[..., torch.Tensor]) -> Callable[[], Any]:
        return lambda: torch.autograd.grad(function(leaf, target), leaf)

    forward, backward = "torch.softmax, requires_grad", "torch.softmax, forward and backward"
    loop = f"torch.softmax, {LOOP[0]}×{LOOP[1]}"
    loss, training = "F.cross_entropy", "F.cross_entropy, forward and backward"
    timed: list[Layer] = [
        ("torch.softmax", "torch.softmax", lambda: torch.softmax(x, -1)),
        ("plain function", "torch.softmax", lambda: softmax(x)),
        ("operator", "torch.softmax", lambda: softmax_operator(x, -1, 1.0, x.dtype)),
        (forward, forward, lambda: torch.softmax(leaf, -1)),
        ("autograd, forward", forward, lambda: softmax(leaf)),
        (backward, backward, both(torch.softmax)),
        ("autograd, forward and backward", backward, both(softmax)),
        (loop, loop, lambda: torch.softmax(many, -1)),
        (f"plain function, {LOOP[0]}×{LOOP[1]}", loop, lambda: softmax(many)),
        (loss, loss, lambda: F.cross_entropy(x, target)),
        ("cross_entropy", loss, lambda: cross_entropy(x, target)),
        (training, training, step(F.cross_entropy)),
        ("cross_entropy, forward and backward", training, step(cross_entropy)),
    ]
    try:
        from quack.softmax import softmax as peer
    except ImportError:
        return timed
    return [*timed, (f"QuACK's softmax, {LOOP[0]}×{LOOP[1]}", loop, lambda: peer(many))]
