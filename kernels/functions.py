"""`softmax(x)`: the fastest variant for the shape, as a function like PyTorch's own.

If the softmax runs along a contiguous last dimension, `auto` computes it. Another dimension, a
temperature or another dtype of the result takes `along`. Both read a strided tensor in place. Only
if the dimensions before or after `dim` cannot be merged into one (for example in a permuted tensor
of four dimensions) is the tensor copied first: 2MN more. The backward kernel moves 3MN.
Without a GPU, or without Triton, PyTorch computes the result. `kernels.calls` has the ways of a
call.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import torch

from .calls import (
    DTYPES,
    KEPT,
    LEAST,
    MOST,
    Plan,
    RowOp,
    define,
    number,
    run,
    runs_on,
    watched,
)
from .device import device_of
from .lines import along, lines
from .repeat import ALIGNMENT, Repeatable, dense
from .softmax.auto import Auto
from .softmax_backward.backward_auto import BackwardAuto

AUTO, BACKWARD = {fixed: Auto(fixed) for fixed in (False, True)}, BackwardAuto()


def softmax(
    x: torch.Tensor,
    dim: int = -1,
    *,
    temperature: float = 1.0,
    batch_invariant: bool = False,
    dtype: torch.dtype | None = None,
) -> torch.Tensor:
    """softmax(x / temperature) along a dimension, differentiable in ``x`` any number of times.

    NaN, +inf and rows of −inf give the result of `torch.softmax`. 16-bit input is computed in
    float32 and rounded once. The result is contiguous. A strided ``x`` is read in place if the
    dimensions before and after ``dim`` can each be merged into one; otherwise it is copied first,
    2MN more. Under autocast the result keeps the dtype of ``x``. On the CPU `torch.softmax`
    computes the result, or Triton's interpreter if ``TRITON_INTERPRET`` is set.

    Args:
        x: Any shape, also empty or without dimensions; float16, bfloat16, float32 or float64, or
            any real dtype if ``dtype`` is given.
        dim: The dimension along which the result sums to one.
        temperature: Divides ``x``: a number from 1e-30 to 1e30.
        batch_invariant: Whether the bits of a row must not depend on the number of rows, which
            costs time where there are few wide ones. They depend on its elements, their number and
            dtype, the card, and where in a 16-byte vector the row begins. On a CPU it changes
            nothing.
        dtype: The dtype of the result; ``x`` is cast to it first.

    Raises:
        IndexError: there is no such dimension.
        NotImplementedError: the result would have none of the four dtypes.
        TypeError: an argument has a wrong type; True is not a number.
        ValueError: the temperature is out of range.
    """
    if type(dim) is not int or type(temperature) is not float:
        dim, temperature = _dimension(dim), number("temperature", temperature)
    if type(batch_invariant) is not bool:
        kind = type(batch_invariant).__name__
        raise TypeError(f"softmax(): argument 'batch_invariant' must be bool, not {kind}")
    options = dim, temperature, batch_invariant, dtype
    plan = SOFTMAX.recall((x,), options)
    if plan is None:
        if watched(x):
            return _observed(x, *options)
        plan = SOFTMAX.plan((x,), options)
        assert plan is not None
    y: torch.Tensor = run(plan, x)
    return y


def _observed(
    x: torch.Tensor, dim: int, temperature: float, fixed: bool, dtype: torch.dtype | None
) -> torch.Tensor:
    """Softmax in all cases in which `watched` is true."""
    if not isinstance(x, torch.Tensor):
        raise TypeError(f"softmax(): argument 'x' must be Tensor, not {type(x).__name__}")
    result = result_dtype(x.dtype, dtype, x.dim(), dim, temperature)
    compute = softmax_operator if torch.compiler.is_compiling() and runs_on(x) else by_torch
    y: torch.Tensor = compute(x, dim, temperature, fixed, result)
    return y


# --- arguments ---


def _dimension(dim: Any) -> int:
    if not isinstance(dim, bool):
        try:
            return operator.index(dim)
        except TypeError:
            pass
    raise TypeError(f"softmax(): argument 'dim' must be int, not {type(dim).__name__}")


def result_dtype(
    given: torch.dtype, wanted: torch.dtype | None, dims: int, dim: int, temperature: float
) -> torch.dtype:
    """The dtype of softmax's result; checks all arguments.

    Args:
        given: The input's dtype.
        wanted: The dtype to cast it to, or None.
        dims: The number of the input's dimensions.
        dim: The dimension of the softmax.
        temperature: Divides the input.

    Raises:
        IndexError, NotImplementedError, TypeError, ValueError: see `softmax`.
    """
    most = max(dims, 1)  # a tensor without dimensions may be given 0 or -1, as PyTorch has it
    if not -most <= dim < most:
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-most}, {most - 1}], "
            f"but got {dim})"
        )
    if not LEAST <= temperature <= MOST:
        number("temperature", temperature)
    result = given if wanted is None else wanted
    if not isinstance(result, torch.dtype):
        name = type(wanted).__name__
        raise TypeError(f"softmax(): argument 'dtype' must be torch.dtype, not {name}")
    if result not in DTYPES or given.is_complex:
        names = ", ".join(str(dtype).removeprefix("torch.") for dtype in DTYPES)
        refused = given if given.is_complex else result
        raise NotImplementedError(
            f'"softmax" not implemented for {str(refused).removeprefix("torch.")}: '
            f"the result is one of {names}; dtype= casts"
        )
    return result


# --- by PyTorch's operations ---


def by_torch(
    x: torch.Tensor, dim: int, temperature: float, fixed: bool, dtype: torch.dtype
) -> torch.Tensor:
    """softmax(x / temperature) by PyTorch's operations, contiguous, with dtype ``dtype``.

    ``fixed`` changes nothing: no bit of PyTorch's softmax depends on the number of rows.
    """
    if temperature == 1.0:
        return torch.softmax(x, dim, dtype)  # named, the dtype is not changed by autocast
    wide = torch.promote_types(dtype, torch.float32)
    x = x.to(dtype).to(wide)
    if torch.jit._trace.is_tracing() or x.dim() == 0 or x.shape[dim] > 0:
        # as in the kernels: subtracted before the division, a small temperature cannot overflow;
        # softmax's derivative in it is zero
        x = x - x.detach().amax(dim, keepdim=True)
    y = torch.softmax(x / temperature, dim, wide)
    return y if dtype is wide else y.to(dtype)


def gradient_by_torch(
    y: torch.Tensor, dy: torch.Tensor, dim: int, temperature: float, dtype: torch.dtype
) -> torch.Tensor:
    """`plain_gradient` by PyTorch's operations, which can be differentiated again."""
    wide = torch.promote_types(y.dtype, torch.float32)
    y, dy = y.to(wide), dy.to(wide)
    dx = y * (dy - (y * dy).sum(dim, keepdim=True)) / temperature
    return dx.to(dtype)


# --- by kernels ---


def _plan(
    x: torch.Tensor, dim: int, temperature: float, fixed: bool, wanted: torch.dtype | None
) -> Plan:
    """Softmax of tensors of one layout, contiguous, and its gradient."""
    shape, dtype, index = x.shape, x.dtype, x.get_device()
    result = result_dtype(dtype, wanted, len(shape), dim, temperature)
    place = dim % max(len(shape), 1)
    found = lines(shape or (1,), x.stride() or (1,), place)
    rowwise = (
        (found is not None and found.inner == 1 and found.strides[1] == 1)
        and (temperature == 1 and result is dtype and 0 not in shape)
        and AUTO[fixed].unsupported((found.outer, found.cols), dtype, device_of(x)) is None
    )
    prepared: dict[int, Callable[..., torch.Tensor]] = {}  # by alignment

    def launch(x: torch.Tensor, y: torch.Tensor) -> None:
        if found is None or not rowwise:
            return along(_at_least_1d(x), _at_least_1d(y), place, temperature, fixed)
        rows = x.as_strided((found.outer, found.cols), (found.strides[0], 1))
        offset = x.data_ptr() % ALIGNMENT
        if offset not in prepared:
            prepared[offset] = AUTO[fixed].prepare(rows)
        prepared[offset](rows, y.view(rows.shape))
        return None

    def copied(x: torch.Tensor) -> Sequence[torch.Tensor]:
        x = x.to(result).contiguous()
        plan = SOFTMAX.plan((x,), (dim, temperature, fixed, None))
        assert plan is not None
        return plan.call(x)

    layout = dense(shape, result)
    of_dense = _backward(shape, layout[1], layout[1], result, index, dim, temperature, dtype)

    def gradient(y: torch.Tensor, dy: torch.Tensor) -> torch.Tensor:
        if y.is_contiguous() and dy.is_contiguous():
            return of_dense(y, dy)[0]  # type: ignore[no-any-return]
        return softmax_gradient(y, dy, dim, temperature, dtype)

    copies = x.numel() > 0 and (found is None or dtype not in DTYPES)
    call = copied if copies else Repeatable(launch, index, layout)
    return Plan(SOFTMAX, (dim, temperature, dtype), call, gradient)


def softmax_gradient(
    y: torch.Tensor, dy: torch.Tensor, dim: int, temperature: float, dtype: torch.dtype
) -> torch.Tensor:
    """The gradient of softmax's input in ``dtype``, from the answer y and the gradient of y.

    `backward_auto` takes any dimension. It reads both tensors in place or copied, like softmax.
    """
    if not runs_on(y):
        return gradient_by_torch(y, dy, dim, temperature, dtype).contiguous()
    place = dim % max(y.dim(), 1)
    if any(lines(each.shape or (1,), each.stride() or (1,), place) is None for each in (y, dy)):
        y, dy = y.contiguous(), dy.contiguous()
    layout = y.shape, y.stride(), dy.stride(), y.dtype, y.get_device()
    dx: torch.Tensor = _backward(*layout, dim, temperature, dtype)(y, dy)[0]
    return dx


@lru_cache(maxsize=KEPT)
def _backward(
    shape: tuple[int, ...],
    y_strides: tuple[int, ...],
    dy_strides: tuple[int, ...],
    y_dtype: torch.dtype,
    index: int,
    dim: int,
    temperature: float,
    dtype: torch.dtype,
) -> Repeatable:
    """The gradient for tensors of one layout; strides and dtypes are there to tell them apart."""
    place = dim % max(len(shape), 1)

    def launch(y: torch.Tensor, dy: torch.Tensor, dx: torch.Tensor) -> None:
        BACKWARD.into(_at_least_1d(y), _at_least_1d(dy), _at_least_1d(dx), place, temperature)

    return Repeatable(launch, index, dense(shape, dtype))


def _at_least_1d(x: torch.Tensor) -> torch.Tensor:
    return x.view(1) if x.dim() == 0 else x


# --- the operation ---


def _fake(x: torch.Tensor, *rest: Any) -> torch.Tensor:
    return torch.empty(x.shape, dtype=rest[-1], device=x.device)


_OPTIONS = "SymInt dim, float temperature, ScalarType dtype"
backward_operator = define(
    f"softmax_backward(Tensor y, Tensor dy, {_OPTIONS}) -> Tensor",
    *(softmax_gradient, _fake, gradient_by_torch),
)
SOFTMAX = RowOp(
    schema="softmax(Tensor x, SymInt dim, float temperature, bool fixed, ScalarType dtype)"
    " -> Tensor",
    plan_of=_plan,
    fake=_fake,
    by_torch=by_torch,
    saved=lambda _, answers: answers,
    gradient=backward_operator,
    gradient_by_torch=gradient_by_torch,
    gradient_options=lambda x, dim, temperature, *_: (dim, temperature, x.dtype),
)
softmax_operator = SOFTMAX.operator
