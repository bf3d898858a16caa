"""Softmax of plain tensors: no autograd, no tracing.

Of a tensor whose softmax runs along a last dimension of neighbouring elements the rows are given to
`auto`; another dimension, a temperature or another dtype of the result takes `along`. Both read a
strided tensor where it lies. Only where the dimensions before or after `dim` cannot be merged into
one (a permuted or sliced tensor of four dimensions, say) it is copied first: 2MN more.
Without a GPU, or without Triton, PyTorch computes.
"""

from __future__ import annotations

from functools import lru_cache

import torch

from kernels.device import Device, cuda_device
from kernels.launch import ALIGNMENT
from kernels.lines.lines import lines
from kernels.softmax.auto import Auto
from kernels.softmax.function.along import along
from kernels.softmax.function.arguments import DTYPES, result_dtype
from kernels.softmax.function.by_torch import by_torch
from kernels.softmax.function.plan import KEPT, Carry, Plan, Shape, contiguous, runs_on

AUTO = Auto()


def plain_softmax(
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
        return plain_softmax(x.to(result).contiguous(), dim, temperature, None)

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
    elif not runs_on(index):
        carry = torchs
    elif found is None or dtype not in DTYPES:
        carry = first_copied
    else:
        carry = by_lines
        if found.inner == 1 and found.strides[1] == 1 and temperature == 1 and result is dtype:
            device = cuda_device(index) if index >= 0 else Device(kind="cpu", name="cpu")
            if AUTO.unsupported((found.outer, found.cols), dtype, device) is None:
                carry = by_rows
    return Plan(carry, result, index, result is dtype and contiguous(shape, strides))
