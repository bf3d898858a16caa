"""`softmax(x)`: the fastest of the variants at hand, as a function like PyTorch's own.

Three layers, each only where it is needed, for each costs the host time: a plain call launches a
kernel; where gradients are wanted an autograd function keeps the answer and calls the backward
kernel, 3MN; and under `torch.compile` or anything else that looks at a program an operator of
PyTorch's stands for both.
"""

from __future__ import annotations

import torch
from torch.autograd import forward_ad

from kernels.softmax.function.arguments import result_dtype
from kernels.softmax.function.by_torch import by_torch
from kernels.softmax.function.forward import plain_softmax
from kernels.softmax.function.gradients import differentiable, transformable
from kernels.softmax.function.operator import softmax_operator
from kernels.softmax.function.plan import INTERPRETED


def softmax(
    x: torch.Tensor,
    dim: int = -1,
    *,
    temperature: float = 1.0,
    dtype: torch.dtype | None = None,
) -> torch.Tensor:
    """softmax(x / temperature) along a dimension, differentiable in ``x`` any number of times.

    NaN, +inf and rows that are −inf throughout come out as from `torch.softmax`. 16-bit input is
    computed in float32 and rounded once. The result is contiguous, whatever the strides of ``x``,
    which are read in place where the dimensions before and after ``dim`` can each be merged into
    one; else a copy is made first, 2MN more. Under autocast the result keeps the dtype of ``x``.
    A tensor on the CPU is computed by `torch.softmax`, or by Triton's interpreter where
    ``TRITON_INTERPRET`` is set.

    Args:
        x: Any shape, empty or without dimensions too; float16, bfloat16, float32 or float64, or
            any real dtype where ``dtype`` is given.
        dim: The dimension along which the result sums to one.
        temperature: Divides ``x``: a number from 1e-30 to 1e30.
        dtype: What ``x`` is cast to before anything else, and so that of the result.

    Raises:
        IndexError: there is no such dimension.
        NotImplementedError: the result would not be one of the four dtypes.
        ValueError: the temperature is not such a number.
    """
    if (
        torch.compiler.is_dynamo_compiling()  # first: Dynamo follows none of what comes after
        or type(x) not in _PLAIN
        or not (x.is_cuda or (INTERPRETED and x.is_cpu))
        or x.is_neg()
        or torch._C._len_torch_dispatch_stack()
        or torch._C._are_functorch_transforms_active()
        or torch._C._get_tracing_state() is not None
    ):
        return _looked_at(x, dim, temperature, dtype)
    if (x.requires_grad and torch.is_grad_enabled()) or forward_ad._current_level >= 0:
        return differentiable(x, (dim, temperature, dtype))
    return plain_softmax(x, dim, temperature, dtype)


_PLAIN = (torch.Tensor, torch.nn.Parameter)  # a subclass may mean something else by its elements


def _looked_at(
    x: torch.Tensor, dim: int, temperature: float, dtype: torch.dtype | None
) -> torch.Tensor:
    """Softmax of a tensor that is traced, transformed, watched or not on a GPU."""
    result = result_dtype(x.dtype, dtype, x.dim(), dim, temperature)
    if not (x.device.type == "cuda" or (INTERPRETED and x.device.type == "cpu")):
        return by_torch(x, dim, temperature, dtype)
    if not torch.compiler.is_dynamo_compiling() and torch._C._are_functorch_transforms_active():
        return transformable(x, dim, float(temperature), result)
    y: torch.Tensor = softmax_operator(x, dim, float(temperature), result)
    return y
