"""Softmax and its gradient on plain tensors: no autograd, no tracing.

Of a tensor whose softmax runs along a last dimension of neighbouring elements the rows are given to
`auto`; another dimension, a temperature or another dtype of the result takes `along`. Both read a
strided tensor where it lies. Only where the dimensions before or after `dim` cannot be merged into
one (a permuted or sliced tensor of four dimensions, say) it is copied first: 2MN more.
Without a GPU, or without Triton, PyTorch computes.
"""

from __future__ import annotations

import os
from functools import lru_cache

import torch

from kernels.device import Device, cuda_device
from kernels.language import tl
from kernels.launch import ALIGNMENT
from kernels.softmax.along import along
from kernels.softmax.arguments import DTYPES, result_dtype
from kernels.softmax.auto import Auto
from kernels.softmax.by_torch import by_torch, gradient_by_torch
from kernels.softmax.lines import lines
from kernels.softmax.plan import Carry, Plan
from kernels.softmax_backward.backward import Backward

KEPT = 4096  # plans of each direction, the least recently used makes room; some 2 kB each
AUTO, BACKWARD = Auto(), Backward()
# Triton decides so as it decorates, once
INTERPRETED = os.environ.get("TRITON_INTERPRET", "0") not in ("", "0")

Shape = tuple[int, ...]


def forward(
    x: torch.Tensor, dim: int, temperature: float, dtype: torch.dtype | None
) -> torch.Tensor:
    """softmax(x / temperature) along ``dim``, contiguous.

    Raises:
        IndexError, NotImplementedError, ValueError: see `result_dtype`.
    """
    plan = _forward(
        x.shape,
        x.stride(),
        x.dtype,
        x.get_device(),
        x.data_ptr() % ALIGNMENT,
        dim,
        temperature,
        dtype,
    )
    return plan(x)


def backward(
    y: torch.Tensor, dy: torch.Tensor, dim: int, temperature: float, dtype: torch.dtype
) -> torch.Tensor:
    """The gradient of `forward`'s input, of ``dtype``, from its answer and that one's gradient."""
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
def _forward(
    shape: Shape,
    strides: Shape,
    dtype: torch.dtype,
    index: int,
    offset: int,
    dim: int,
    temperature: float,
    wanted: torch.dtype | None,
) -> Plan:
    result = result_dtype(dtype, wanted, len(shape), dim, temperature)

    def empty(x: torch.Tensor) -> torch.Tensor:
        return torch.empty(shape, dtype=result, device=x.device)

    def torchs(x: torch.Tensor) -> torch.Tensor:
        return by_torch(x, dim, temperature, wanted)

    def first_copied(x: torch.Tensor) -> torch.Tensor:
        return forward(x.to(result).contiguous(), dim, temperature, None)

    def by_rows(x: torch.Tensor) -> torch.Tensor:
        assert found is not None
        rows = x.as_strided((found.outer, found.cols), (found.strides[0], 1))
        if not prepared:
            prepared.append(AUTO.prepare(rows))
        return prepared[0](rows).view(shape)

    def by_lines(x: torch.Tensor) -> torch.Tensor:
        y = empty(x)
        along(
            x.view(1) if x.dim() == 0 else x, y.view(1) if x.dim() == 0 else y, place, temperature
        )
        return y

    prepared: list[Carry] = []
    place = dim % max(len(shape), 1)
    found = lines(shape or (1,), strides or (1,), place)
    carry: Carry
    if 0 in shape:
        carry = empty
    elif tl is None or (index < 0 and not INTERPRETED):
        carry = torchs
    elif found is None or dtype not in DTYPES:
        carry = first_copied
    else:
        carry = by_lines
        if found.inner == 1 and found.strides[1] == 1 and temperature == 1 and result is dtype:
            device = cuda_device(index) if index >= 0 else Device(kind="cpu", name="cpu")
            if AUTO.unsupported((found.outer, found.cols), dtype, device) is None:
                carry = by_rows
    return Plan(carry, result, index, result is dtype and _contiguous(shape, strides))


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
        return backward(y.contiguous(), dy.contiguous(), dim, temperature, dtype)

    def by_lines(y: torch.Tensor, dy: torch.Tensor) -> torch.Tensor:
        dx = empty(y, dy)
        ours = [t.view(1) if t.dim() == 0 else t for t in (y, dy, dx)]
        BACKWARD.into(ours[0], ours[1], ours[2], place, temperature)
        return dx

    carry: Carry = by_lines
    if 0 in shape:
        carry = empty
    elif tl is None or (index < 0 and not INTERPRETED):
        carry = torchs
    elif any(lines(shape or (1,), s or (1,), place) is None for s in (y_strides, dy_strides)):
        carry = first_copied
    return Plan(carry, dtype, index, y_dtype is dtype and _contiguous(shape, y_strides))


def _contiguous(shape: Shape, strides: Shape) -> bool:
    step = 1
    for size, stride in zip(reversed(shape), reversed(strides), strict=True):
        if size != 1 and stride != step:
            return False
        step *= size
    return True
