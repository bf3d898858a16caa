"""Softmax and its gradient by PyTorch's operations: where no kernel runs, or autograd looks on."""

from __future__ import annotations

import torch


def by_torch(
    x: torch.Tensor, dim: int, temperature: float, dtype: torch.dtype | None
) -> torch.Tensor:
    """`plain_softmax` by PyTorch's operations."""
    if temperature != 1.0:
        x = (x if dtype is None else x.to(dtype)) / temperature
    return torch.softmax(x, dim, dtype).contiguous()


def gradient_by_torch(
    y: torch.Tensor, dy: torch.Tensor, dim: int, temperature: float, dtype: torch.dtype
) -> torch.Tensor:
    """`plain_gradient` by PyTorch's operations, which can be differentiated again."""
    wide = torch.promote_types(y.dtype, torch.float32)
    y, dy = y.to(wide), dy.to(wide)
    dx = y * (dy - (y * dy).sum(dim, keepdim=True)) / temperature
    return dx.to(dtype)
