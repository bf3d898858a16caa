"""`softmax(x)`: the fastest variant for the shape, as a function like PyTorch's own.

A call takes the shortest of three ways, because each layer costs host time:

- A plain call launches a kernel. If a gradient is needed, an autograd function keeps the answer and
  later calls the backward kernel, 3MN. A call similar to an earlier one reuses its `Plan`.
- `torch.compile` and `torch.export` see a PyTorch operator that launches the same kernels.
- Forward-mode differentiation, functorch's transforms, dispatch modes, `torch.jit.trace` and tensor
  subclasses get PyTorch's own operations: they would treat our operator as a constant.

If the softmax runs along a contiguous last dimension, `auto` computes it. Another dimension, a
temperature or another dtype of the result takes `along`. Both read a strided tensor in place. Only
if the dimensions before or after `dim` cannot be merged into one (for example in a permuted tensor
of four dimensions) is the tensor copied first: 2MN more.
Without a GPU, or without Triton, PyTorch computes the result.
"""

from __future__ import annotations

import operator
import os
from collections.abc import Callable
from functools import lru_cache
from numbers import Real
from typing import Any

import torch
from torch._C import _are_functorch_transforms_active as _transforms_active
from torch._C import _is_tracing
from torch._C import _len_torch_dispatch_stack as _dispatch_modes
from torch._C._functorch import is_legacy_batchedtensor as _is_batched  # by autograd's own vmap
from torch.autograd import Function, forward_ad
from torch.compiler import is_dynamo_compiling

from .device import Device, cuda_device
from .language import tl
from .launch import ALIGNMENT, Plan, alike
from .lines import lines
from .softmax.along import along
from .softmax.auto import Auto
from .softmax_backward.backward_auto import BackwardAuto

DTYPES = (torch.float32, torch.float16, torch.bfloat16, torch.float64)
LEAST, MOST = 1e-30, 1e30  # temperatures that leave float32 neither zero nor infinity
KEPT = 4096  # plans of each direction, the least recently used makes room; some 2 kB each
# Triton decides so as it decorates, once
INTERPRETED = os.environ.get("TRITON_INTERPRET", "0") not in ("", "0")
AUTO, BACKWARD = Auto(), BackwardAuto()

PLAIN = (torch.Tensor, torch.nn.Parameter)  # a subclass may mean something else by its elements

Shape = tuple[int, ...]
Carry = Callable[..., torch.Tensor]


def softmax(
    x: torch.Tensor, dim: int = -1, *, temperature: float = 1.0, dtype: torch.dtype | None = None
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
        dtype: The dtype of the result; ``x`` is cast to it first.

    Raises:
        IndexError: there is no such dimension.
        NotImplementedError: the result would have none of the four dtypes.
        TypeError: an argument has a wrong type; True is not a number.
        ValueError: the temperature is out of range.
    """
    if type(dim) is not int or type(temperature) is not float:
        # first of all, for as a key of a cache True, 1 and 1.0 are one
        dim, temperature = _dimension(dim), _temperature(temperature)
    if is_dynamo_compiling() or type(x) not in PLAIN:  # Dynamo follows none of what comes after
        return _observed(x, dim, temperature, dtype)
    differentiated = x.requires_grad
    try:
        call = x.shape, differentiated, dim, temperature, dtype
        plan = _RECENT.get(call)
    except (RuntimeError, TypeError):  # nested tensors have no shape, symbolic ones no hash
        plan = None
    if (
        plan is None
        or forward_ad._current_level >= 0
        or not plan.alike(x)
        or (address := x.data_ptr()) % ALIGNMENT != plan.offset
    ):
        if watched(x):
            return _observed(x, dim, temperature, dtype)
        plan, address = _plan(x, dim, temperature, dtype), x.data_ptr()
        _remember(call, plan, x)
    if differentiated and torch.is_grad_enabled():
        return _differentiable(x, plan, address)
    y = plan.again(address)
    return plan(x) if y is None else y


def watched(x: Any) -> bool:
    """Whether a call on ``x`` must not simply launch a kernel.

    True under compilation, tracing, transforms, dispatch modes and forward-mode differentiation;
    also for a subclass, a device without kernels, and a conjugated or negated view.
    """
    return (
        is_dynamo_compiling()  # first: Dynamo follows none of what comes after
        or type(x) not in PLAIN
        or not (x.is_cuda or (INTERPRETED and x.is_cpu))
        or x.is_neg()
        or forward_ad._current_level >= 0
        or _dispatch_modes() > 0
        or _transforms_active()
        or _is_tracing()
    )


def _observed(
    x: torch.Tensor, dim: int, temperature: float, dtype: torch.dtype | None
) -> torch.Tensor:
    """Softmax in all cases in which `watched` is true."""
    if not isinstance(x, torch.Tensor):
        raise TypeError(f"softmax(): argument 'x' must be Tensor, not {type(x).__name__}")
    result = result_dtype(x.dtype, dtype, x.dim(), dim, temperature)
    on_device = x.device.type == "cuda" or (INTERPRETED and x.device.type == "cpu")
    if on_device and torch.compiler.is_compiling():
        y: torch.Tensor = softmax_operator(x, dim, temperature, result)
        return y
    return by_torch(x, dim, temperature, result)


# --- arguments ---


def _dimension(dim: Any) -> int:
    if not isinstance(dim, bool):
        try:
            return operator.index(dim)
        except TypeError:
            pass
    raise TypeError(f"softmax(): argument 'dim' must be int, not {type(dim).__name__}")


def _temperature(temperature: Any) -> float:
    # where a call is compiled it may be symbolic, and no text can be made of it
    if isinstance(temperature, bool) or not isinstance(temperature, Real):
        raise TypeError(_not_a_temperature(temperature))
    if not LEAST <= temperature <= MOST:  # type: ignore[operator]
        raise ValueError(_not_a_temperature(temperature))
    return float(temperature)


def _not_a_temperature(temperature: Any) -> str:
    return f"temperature must be a number from {LEAST:g} to {MOST:g}, not {temperature!r}"


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
        _temperature(temperature)
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


def by_torch(x: torch.Tensor, dim: int, temperature: float, dtype: torch.dtype) -> torch.Tensor:
    """softmax(x / temperature) by PyTorch's operations, contiguous, with dtype ``dtype``."""
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


def transformed() -> bool:
    """Whether forward-mode differentiation or a functorch transform is active."""
    return forward_ad._current_level >= 0 or _transforms_active()


# --- by a kernel ---


def _runs_on(index: int) -> bool:
    """Whether a kernel can run on the CUDA device ``index``; −1 is the CPU."""
    return tl is not None and (index >= 0 or INTERPRETED)


def _at_least_1d(x: torch.Tensor) -> torch.Tensor:
    return x.view(1) if x.dim() == 0 else x


def plain_softmax(
    x: torch.Tensor, dim: int, temperature: float, dtype: torch.dtype | None
) -> torch.Tensor:
    """softmax(x / temperature) along ``dim``, contiguous: no autograd, no tracing.

    Raises:
        IndexError, NotImplementedError, TypeError, ValueError: see `softmax`.
    """
    return _plan(x, dim, temperature, dtype)(x)


class _Softmax(Plan):
    """The plan of a softmax, and the settings of its gradient.

    Attributes:
        offset: The input's address modulo 16.
        settings: Dimension, temperature and dtype of the gradient.
        gradient: The gradient's plan where both tensors are contiguous and aligned.
    """

    __slots__ = ("gradient", "offset", "settings")

    offset: int
    gradient: Plan
    settings: tuple[int, float, torch.dtype]


_RECENT: dict[tuple[Any, ...], _Softmax] = {}  # by what is cheapest read; the rest `alike` compares


def _remember(call: tuple[Any, ...], plan: _Softmax, x: torch.Tensor) -> None:
    if len(_RECENT) >= KEPT:
        _RECENT.clear()
    plan.alike = alike(x)
    _RECENT[call] = plan


def _plan(x: torch.Tensor, dim: int, temperature: float, dtype: torch.dtype | None) -> _Softmax:
    offset = x.data_ptr() % ALIGNMENT
    return _forward(x.shape, x.stride(), x.dtype, x.get_device(), offset, dim, temperature, dtype)


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
) -> _Softmax:
    result = result_dtype(dtype, wanted, len(shape), dim, temperature)
    place = dim % max(len(shape), 1)
    found = lines(shape or (1,), strides or (1,), place)
    rowwise = found is not None and found.inner == 1 and found.strides[1] == 1
    if found is not None and rowwise:
        device = cuda_device(index) if index >= 0 else Device(kind="cpu", name="cpu")
        refused = AUTO.unsupported((found.outer, found.cols), dtype, device)
        rowwise = refused is None and 0 not in shape and temperature == 1 and result is dtype
    prepared: list[Carry] = []

    def carry(x: torch.Tensor) -> torch.Tensor:
        if not _runs_on(index):
            return by_torch(x, dim, temperature, result)
        if 0 not in shape and (found is None or dtype not in DTYPES):
            return plain_softmax(x.to(result).contiguous(), dim, temperature, None)
        if found is not None and rowwise:
            rows = x.as_strided((found.outer, found.cols), (found.strides[0], 1))
            if not prepared:
                prepared.append(AUTO.prepare(rows))
            return prepared[0](rows).view(shape)
        y = torch.empty(shape, dtype=result, device=x.device)
        if y.numel() > 0:
            along(_at_least_1d(x), _at_least_1d(y), place, temperature)
        return y

    plan = _Softmax(carry, index)
    plan.offset, plan.settings = offset, (dim, temperature, dtype)
    dense = torch.empty(shape, device="meta").stride()
    plan.gradient = _backward((shape, dense, dense, (0, 0)), result, index, *plan.settings)
    return plan


def plain_gradient(
    y: torch.Tensor, dy: torch.Tensor, dim: int, temperature: float, dtype: torch.dtype
) -> torch.Tensor:
    """The gradient of softmax's input in ``dtype``, from the answer y and the gradient of y.

    `backward_auto` takes any dimension. It reads both tensors in place or copied, like softmax.
    """
    offsets = y.data_ptr() % ALIGNMENT, dy.data_ptr() % ALIGNMENT
    layout = y.shape, y.stride(), dy.stride(), offsets
    return _backward(layout, y.dtype, y.get_device(), dim, temperature, dtype)(y, dy)


@lru_cache(maxsize=KEPT)
def _backward(
    layout: tuple[Shape, Shape, Shape, tuple[int, int]],
    y_dtype: torch.dtype,
    index: int,
    dim: int,
    temperature: float,
    dtype: torch.dtype,
) -> Plan:
    shape, *strides, _ = layout
    place = dim % max(len(shape), 1)
    apart = any(lines(shape or (1,), each or (1,), place) is None for each in strides)

    def carry(y: torch.Tensor, dy: torch.Tensor) -> torch.Tensor:
        if not _runs_on(index):
            return gradient_by_torch(y, dy, dim, temperature, dtype).contiguous()
        if apart and 0 not in shape:
            return plain_gradient(y.contiguous(), dy.contiguous(), dim, temperature, dtype)
        dx = torch.empty(shape, dtype=dtype, device=y.device)
        if dx.numel() > 0:
            y, dy = _at_least_1d(y), _at_least_1d(dy)
            BACKWARD.into(y, dy, _at_least_1d(dx), place, temperature)
        return dx

    return Plan(carry, index)


# --- the operators, for torch.compile and torch.export ---


def _fake(x: torch.Tensor, *rest: Any) -> torch.Tensor:
    return torch.empty(x.shape, dtype=rest[-1], device=x.device)


def _operator_autograd(
    x: torch.Tensor, dim: int, temperature: float, dtype: torch.dtype
) -> torch.Tensor:
    """Registers the operator's derivatives, for transforms of a graph that contains it."""
    if transformed():
        return by_torch(x, dim, temperature, dtype)
    if x.requires_grad and torch.is_grad_enabled():
        return _traced(x, dim, temperature, dtype)
    answer: torch.Tensor = below_autograd(softmax_operator, x, dim, temperature, dtype)
    return answer


def _backward_operator_autograd(
    y: torch.Tensor, dy: torch.Tensor, dim: int, temperature: float, dtype: torch.dtype
) -> torch.Tensor:
    if transformed() or (torch.is_grad_enabled() and (y.requires_grad or dy.requires_grad)):
        return gradient_by_torch(y, dy, dim, temperature, dtype)
    answer: torch.Tensor = below_autograd(backward_operator, y, dy, dim, temperature, dtype)
    return answer


def below_autograd(operator: Callable[..., Any], *arguments: Any) -> Any:
    """Calls an operator below autograd."""
    with torch._C._AutoDispatchBelowAutograd():
        return operator(*arguments)


_OPERATORS = {  # of each its tensors, its kernel, its derivative and what takes batched tensors
    "softmax": ("Tensor x", plain_softmax, _operator_autograd, by_torch),
    "softmax_backward": (
        "Tensor y, Tensor dy", plain_gradient, _backward_operator_autograd, gradient_by_torch
    ),
}  # fmt: skip
# PyTorch takes one definition of a name. This file imported again, as `kernels` of a checkout
# beside the installed package or by a reload, uses the operators of its first import.
if not hasattr(torch.ops.softmax_roofline, [*_OPERATORS][-1]):
    _LIBRARY = torch.library.Library("softmax_roofline", "DEF")
    for _name, (_tensors, _kernel, _autograd, _batched) in _OPERATORS.items():
        _signature = f"{_name}({_tensors}, SymInt dim, float temperature, ScalarType dtype)"
        _LIBRARY.define(f"{_signature} -> Tensor", tags=torch.Tag.pt2_compliant_tag)
        for _key in ("CPU", "CUDA"):
            _LIBRARY.impl(_name, _kernel, _key)
        _LIBRARY.impl(_name, _autograd, "Autograd")
        _LIBRARY.impl(_name, _batched, "FuncTorchBatched")
        torch.library.register_fake(f"softmax_roofline::{_name}", _fake, lib=_LIBRARY)
softmax_operator = torch.ops.softmax_roofline.softmax.default
backward_operator = torch.ops.softmax_roofline.softmax_backward.default


# --- reverse-mode differentiation ---


class _Differentiable(Function):
    """Softmax and its gradient by kernels."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, plan: _Softmax, address: int) -> torch.Tensor:
        y = plan.again(address)
        if y is None:
            y = plan(x)
        ctx.plan = plan
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx: Any, dy: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        (y,), forward = ctx.saved_tensors, ctx.plan
        plan: Plan = forward.gradient
        # where gradients are enabled, this one is to be differentiated in its turn
        if (
            is_dynamo_compiling()
            or torch.is_grad_enabled()
            or forward_ad._current_level >= 0
            or not plan.alike(y, dy)
        ):
            if torch.is_grad_enabled() or watched(dy) or _is_batched(dy):
                return gradient_by_torch(y, dy, *forward.settings), None, None
            if not (y.is_contiguous() and dy.is_contiguous()):
                return plain_gradient(y, dy, *forward.settings), None, None
            plan.alike = alike(y, dy)
        addresses = y.data_ptr(), dy.data_ptr()
        if (addresses[0] | addresses[1]) % ALIGNMENT:
            return plain_gradient(y, dy, *forward.settings), None, None
        dx = plan.again(*addresses)
        return (plan(y, dy) if dx is None else dx), None, None


class _Traced(Function):
    """Softmax and its gradient by the operators, which a compiler traces."""

    @staticmethod
    def forward(
        ctx: Any, x: torch.Tensor, dim: int, temperature: float, dtype: torch.dtype
    ) -> torch.Tensor:
        y: torch.Tensor = below_autograd(softmax_operator, x, dim, temperature, dtype)
        ctx.settings = dim, temperature, x.dtype
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx: Any, dy: torch.Tensor) -> tuple[torch.Tensor, None, None, None]:
        (y,) = ctx.saved_tensors
        return backward_operator(y, dy, *ctx.settings), None, None, None


# Past PyTorch's own layers in Python: one looks for functorch's wrappers, which callers have ruled
# out, the other for the function that computes the gradient, which is known
_differentiable: Callable[..., torch.Tensor] = super(Function, _Differentiable).apply
_traced: Callable[..., torch.Tensor] = super(Function, _Traced).apply
_Differentiable._backward_cls.apply = _Differentiable.backward  # type: ignore[attr-defined]
