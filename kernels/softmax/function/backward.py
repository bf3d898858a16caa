"""The gradient of softmax on plain tensors: no autograd, no tracing.

The kernel of the variant `backward` takes any dimension and reads both tensors where they lie, or
copied, as in `forward`. Without a GPU, or without Triton, PyTorch computes.
"""

from __future__ import annotations

from functools import lru_cache

import torch

from kernels.launch import ALIGNMENT
from kernels.lines.lines import lines
from kernels.softmax.function.by_torch import gradient_by_torch
from kernels.softmax.function.plan import KEPT, Carry, Plan, Shape, contiguous, runs_on
from kernels.softmax_backward.backward import Backward

BACKWARD = Backward()


def plain_gradient(
    y: torch.Tensor, dy: torch.Tensor, dim: int, temperature: float, dtype: torch.dtype
) -> torch.Tensor:
    """The gradient of softmax's input, of ``dtype``, from its answer y and that one's gradient."""
    plan = _backward(
        y.shape,
        y.stride(),
        dy.stride(),
        y.dtype,
        y.get_device(),
        y.data_ptr() % ALIGNMENT,
        dy.data_ptr() % ALIGNMENT,
        dim,
        temperature,
        dtype,
    )
    return plan(y, dy)


@lru_cache(maxsize=KEPT)
def _backward(
    shape: Shape,
    y_strides: Shape,
    dy_strides: Shape,
    y_dtype: torch.dtype,
    index: int,
    y_offset: int,
    dy_offset: int,
    dim: int,
    temperature: float,
    dtype: torch.dtype,
) -> Plan:
    place = dim % max(len(shape), 1)

    def empty(y: torch.Tensor, dy: torch.Tensor) -> torch.Tensor:
        return torch.empty(shape, dtype=dtype, device=y.device)

    def torchs(y: torch.Tensor, dy: torch.Tensor) -> torch.Tensor:
        return gradient_by_torch(y, dy, dim, temperature, dtype).contiguous()

    def first_copied(y: torch.Tensor, dy: torch.Tensor) -> torch.Tensor:
        return plain_gradient(y.contiguous(), dy.contiguous(), dim, temperature, dtype)

    def by_lines(y: torch.Tensor, dy: torch.Tensor) -> torch.Tensor:
        dx = empty(y, dy)
        ours = [t.view(1) if t.dim() == 0 else t for t in (y, dy, dx)]
        BACKWARD.into(ours[0], ours[1], ours[2], place, temperature)
        return dx

    carry: Carry = by_lines
    if 0 in shape:
        carry = empty
    elif not runs_on(index):
        carry = torchs
    elif any(lines(shape or (1,), s or (1,), place) is None for s in (y_strides, dy_strides)):
        carry = first_copied
    return Plan(carry, dtype, index, y_dtype is dtype and contiguous(shape, y_strides))
