"""Autograd of softmax outside of a compiler: for plain tensors, and for functorch's transforms.

The derivative is the same matrix in both directions, for it is symmetric: (diag y − y yᵀ) / T.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.autograd import Function, forward_ad

from kernels.softmax.function.backward import plain_gradient
from kernels.softmax.function.by_torch import gradient_by_torch
from kernels.softmax.function.forward import plain_softmax
from kernels.softmax.function.operator import softmax_operator

Settings = tuple[int, float, torch.dtype | None]  # dim, temperature, dtype


class _Plain(Function):
    """By the kernels, for tensors that nothing looks at; the backward kernel runs at 3MN."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, settings: Settings) -> torch.Tensor:
        y = plain_softmax(x, *settings)
        dim, temperature, _ = settings
        ctx.like = dim, temperature, x.dtype
        ctx.save_for_backward(y)
        if forward_ad._current_level >= 0:
            ctx.save_for_forward(y)
        return y

    @staticmethod
    def backward(ctx: Any, dy: torch.Tensor) -> tuple[torch.Tensor, None]:
        (y,) = ctx.saved_tensors
        if (
            torch.is_grad_enabled()  # the gradient is to be differentiated in its turn
            or type(dy) is not torch.Tensor
            or dy.is_neg()
            or torch._C._len_torch_dispatch_stack()
            or torch._C._are_functorch_transforms_active()
            or torch._C._functorch.is_legacy_batchedtensor(dy)  # autograd's own vmap
        ):
            return gradient_by_torch(y, dy, *ctx.like), None
        return plain_gradient(y, dy, *ctx.like), None

    @staticmethod
    def jvp(ctx: Any, dx: torch.Tensor, _: None) -> torch.Tensor:
        return _tangent(ctx, dx)


class _Transformed(Function):
    """By the operator forward and PyTorch's operations backward, which functorch can transform."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: torch.Tensor, dim: int, temperature: float, dtype: torch.dtype) -> torch.Tensor:
        y: torch.Tensor = softmax_operator(x, dim, temperature, dtype)
        return y

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
        x, dim, temperature, _ = inputs
        ctx.like = dim, temperature, x.dtype
        ctx.save_for_backward(output)
        ctx.save_for_forward(output)

    @staticmethod
    def backward(ctx: Any, dy: torch.Tensor) -> tuple[torch.Tensor, None, None, None]:
        (y,) = ctx.saved_tensors
        return gradient_by_torch(y, dy, *ctx.like), None, None, None

    @staticmethod
    def jvp(ctx: Any, dx: torch.Tensor, *_: None) -> torch.Tensor:
        return _tangent(ctx, dx)


def _tangent(ctx: Any, dx: torch.Tensor) -> torch.Tensor:
    (y,) = ctx.saved_tensors
    dim, temperature, _ = ctx.like
    return gradient_by_torch(y, dx.to(y.dtype), dim, temperature, y.dtype)


# Function.apply itself first looks for functorch's wrappers, 2 µs; callers have ruled them out
differentiable: Callable[..., torch.Tensor] = super(Function, _Plain).apply
transformable: Callable[..., torch.Tensor] = _Transformed.apply
