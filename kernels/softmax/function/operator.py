"""Softmax and its gradient as PyTorch operators, for what looks at a program before it runs.

`torch.compile`, `torch.export`, fake tensors, functorch's transforms and dispatch modes see one
operator and not the kernel behind it.
"""

from __future__ import annotations

from typing import Any

import torch

from kernels.softmax.function.backward import plain_gradient
from kernels.softmax.function.by_torch import gradient_by_torch
from kernels.softmax.function.forward import plain_softmax


@torch.library.custom_op("softmax_roofline::softmax", mutates_args=())
def softmax_operator(
    x: torch.Tensor, dim: int, temperature: float, dtype: torch.dtype
) -> torch.Tensor:
    """softmax(x / temperature) along ``dim``, contiguous, of ``dtype``."""
    return plain_softmax(x, dim, temperature, dtype)


@torch.library.custom_op("softmax_roofline::softmax_backward", mutates_args=())
def backward_operator(
    y: torch.Tensor, dy: torch.Tensor, dim: int, temperature: float, dtype: torch.dtype
) -> torch.Tensor:
    """The gradient of ``x``, contiguous, of ``dtype``, from the answer y and its gradient."""
    return plain_gradient(y, dy, dim, temperature, dtype)


@softmax_operator.register_fake
def _(x: torch.Tensor, dim: int, temperature: float, dtype: torch.dtype) -> torch.Tensor:
    return torch.empty(x.shape, dtype=dtype, device=x.device)


@backward_operator.register_fake
def _(
    y: torch.Tensor, dy: torch.Tensor, dim: int, temperature: float, dtype: torch.dtype
) -> torch.Tensor:
    return torch.empty(y.shape, dtype=dtype, device=y.device)


def _keep(ctx: Any, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
    x, ctx.dim, ctx.temperature, _ = inputs
    ctx.dtype = x.dtype
    ctx.save_for_backward(output)


def _gradient(ctx: Any, dy: torch.Tensor) -> tuple[torch.Tensor, None, None, None]:
    (y,) = ctx.saved_tensors
    # asked for a gradient that can itself be differentiated
    differentiable = torch.is_grad_enabled()
    compute = gradient_by_torch if differentiable else backward_operator
    return compute(y, dy, ctx.dim, ctx.temperature, ctx.dtype), None, None, None


softmax_operator.register_autograd(_gradient, setup_context=_keep)


@softmax_operator.register_vmap
def _(
    info: Any,
    in_dims: tuple[int | None, ...],
    x: torch.Tensor,
    dim: int,
    temperature: float,
    dtype: torch.dtype,
) -> tuple[torch.Tensor, int]:
    batch = in_dims[0]
    assert batch is not None
    x = x.movedim(batch, 0)
    if x.dim() == 1:  # a batch of single elements
        return softmax_operator(x[:, None], 1, temperature, dtype)[:, 0], 0
    return softmax_operator(x, dim % (x.dim() - 1) + 1, temperature, dtype), 0


@backward_operator.register_vmap
def _(
    info: Any,
    in_dims: tuple[int | None, ...],
    y: torch.Tensor,
    dy: torch.Tensor,
    dim: int,
    temperature: float,
    dtype: torch.dtype,
) -> tuple[torch.Tensor, int]:
    y, dy = (
        tensor.expand(info.batch_size, *tensor.shape) if batch is None else tensor.movedim(batch, 0)
        for tensor, batch in zip((y, dy), in_dims[:2], strict=True)
    )
    if y.dim() == 1:
        return backward_operator(y[:, None], dy[:, None], 1, temperature, dtype)[:, 0], 0
    return backward_operator(y, dy, dim % (y.dim() - 1) + 1, temperature, dtype), 0
