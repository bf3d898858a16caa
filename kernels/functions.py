"""`softmax(x)`: the fastest variant for the shape, as a function like PyTorch's own.

A call takes the shortest of three ways, because each layer costs host time:

- A plain call launches a kernel. If a gradient is needed, an autograd function keeps the answer and
  later calls the backward kernel, 3MN. A call similar to an earlier one repeats its launch.
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
from collections.abc import Callable
from functools import lru_cache
from numbers import Real
from typing import Any

import torch
from torch.autograd import Function, forward_ad
from torch.compiler import is_dynamo_compiling

from . import calls
from .calls import DTYPES, KEPT, LEAST, MOST, PLAIN, below_autograd, define, plain_gradient, watched
from .device import Device, cuda_device
from .language import tl
from .lines import lines
from .repeat import ALIGNMENT, Making, alike
from .softmax.along import along
from .softmax.auto import Auto
from .softmax_backward.backward_auto import BackwardAuto

AUTO, BACKWARD = Auto(), BackwardAuto()

Shape = tuple[int, ...]


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
        recent = _RECENT.get(call)
    except (RuntimeError, TypeError):  # nested tensors have no shape, symbolic ones no hash
        recent = None
    if recent is not None and forward_ad._current_level < 0 and recent[0](x):
        plan = recent[1]
    elif watched(x):
        return _observed(x, dim, temperature, dtype)
    else:
        plan = _plan(x, dim, temperature, dtype)
        if len(_RECENT) >= KEPT:
            _RECENT.clear()
        _RECENT[call] = alike(x), plan
    if differentiated and torch.is_grad_enabled():
        return _differentiable(x, plan)
    return plan.forward(x)


def _observed(
    x: torch.Tensor, dim: int, temperature: float, dtype: torch.dtype | None
) -> torch.Tensor:
    """Softmax in all cases in which `watched` is true."""
    if not isinstance(x, torch.Tensor):
        raise TypeError(f"softmax(): argument 'x' must be Tensor, not {type(x).__name__}")
    result = result_dtype(x.dtype, dtype, x.dim(), dim, temperature)
    if calls.runs_on(x) and torch.compiler.is_compiling():
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


# --- by a kernel ---


def plain_softmax(
    x: torch.Tensor, dim: int, temperature: float, dtype: torch.dtype | None
) -> torch.Tensor:
    """softmax(x / temperature) along ``dim``, contiguous: no autograd, no tracing.

    Raises:
        IndexError, NotImplementedError, TypeError, ValueError: see `softmax`.
    """
    return _plan(x, dim, temperature, dtype).forward(x)


def softmax_gradient(
    y: torch.Tensor, dy: torch.Tensor, dim: int, temperature: float, dtype: torch.dtype
) -> torch.Tensor:
    """The gradient of softmax's input in ``dtype``, from the answer y and the gradient of y.

    `backward_auto` takes any dimension. It reads both tensors in place or copied, like softmax.
    """
    index = y.get_device()
    if not _runs_on(index):
        return gradient_by_torch(y, dy, dim, temperature, dtype).contiguous()
    place = dim % max(y.dim(), 1)
    if any(lines(each.shape or (1,), each.stride() or (1,), place) is None for each in (y, dy)):
        y, dy = y.contiguous(), dy.contiguous()
    layout = y.shape, y.stride(), dy.stride(), y.dtype
    return _backward(*layout, index, dim, temperature, dtype)(y, dy)


class Plan:
    """Computes softmax and its gradient for inputs of one layout.

    Attributes:
        settings: Dimension, temperature and dtype of the gradient.
        forward: Softmax of an input of this layout, contiguous.
        gradient: The gradient where the answer and its gradient are contiguous.
    """

    def __init__(
        self,
        layout: tuple[Shape, Shape, torch.dtype],
        index: int,
        dim: int,
        temperature: float,
        wanted: torch.dtype | None,
    ) -> None:
        shape, strides, dtype = layout
        result = result_dtype(dtype, wanted, len(shape), dim, temperature)
        place = dim % max(len(shape), 1)
        found = lines(shape or (1,), strides or (1,), place)
        self.settings = dim, temperature, dtype
        rowwise = found is not None and found.inner == 1 and found.strides[1] == 1
        if found is not None and rowwise:
            device = cuda_device(index) if index >= 0 else Device(kind="cpu", name="cpu")
            refused = AUTO.unsupported((found.outer, found.cols), dtype, device)
            rowwise = refused is None and 0 not in shape and temperature == 1 and result is dtype
        prepared: dict[int, Callable[..., torch.Tensor]] = {}  # by alignment

        def launch(x: torch.Tensor, y: torch.Tensor) -> None:
            if found is None or not rowwise:
                return along(_at_least_1d(x), _at_least_1d(y), place, temperature)
            rows = x.as_strided((found.outer, found.cols), (found.strides[0], 1))
            offset = x.data_ptr() % ALIGNMENT
            if offset not in prepared:
                prepared[offset] = AUTO.prepare(rows)
            prepared[offset](rows, y.view(rows.shape))
            return None

        self.forward: Callable[[torch.Tensor], torch.Tensor] = Making(launch, shape, result, index)
        if 0 not in shape and (found is None or dtype not in DTYPES):
            self.forward = lambda x: plain_softmax(
                x.to(result).contiguous(), dim, temperature, None
            )
        if not _runs_on(index):
            self.forward = lambda x: by_torch(x, dim, temperature, result)
        dense = torch.empty(shape, device="meta").stride()
        self.gradient = _backward(shape, dense, dense, result, index, *self.settings)


# Recent calls, by the facts that are cheapest to read; `alike` compares the rest
_RECENT: dict[tuple[Any, ...], tuple[Callable[..., bool | None], Plan]] = {}


def _plan(x: torch.Tensor, dim: int, temperature: float, dtype: torch.dtype | None) -> Plan:
    return _kept_plan((x.shape, x.stride(), x.dtype), x.get_device(), dim, temperature, dtype)


_kept_plan = lru_cache(maxsize=KEPT)(Plan)


@lru_cache(maxsize=KEPT)
def _backward(
    shape: Shape,
    y_strides: Shape,
    dy_strides: Shape,
    y_dtype: torch.dtype,
    index: int,
    dim: int,
    temperature: float,
    dtype: torch.dtype,
) -> Making:
    """The gradient for tensors of one layout; strides and dtypes are there to tell them apart."""
    place = dim % max(len(shape), 1)

    def launch(y: torch.Tensor, dy: torch.Tensor, dx: torch.Tensor) -> None:
        BACKWARD.into(_at_least_1d(y), _at_least_1d(dy), _at_least_1d(dx), place, temperature)

    return Making(launch, shape, dtype, index)


def _runs_on(index: int) -> bool:
    """Whether a kernel can run on the CUDA device ``index``; −1 is the CPU."""
    return tl is not None and (index >= 0 or calls.INTERPRETED)


def _at_least_1d(x: torch.Tensor) -> torch.Tensor:
    return x.view(1) if x.dim() == 0 else x


# --- the operators, for torch.compile and torch.export ---


def _fake(x: torch.Tensor, *rest: Any) -> torch.Tensor:
    return torch.empty(x.shape, dtype=rest[-1], device=x.device)


softmax_operator = define(
    "softmax(Tensor x, SymInt dim, float temperature, ScalarType dtype) -> Tensor",
    *(plain_softmax, _fake, by_torch),
    differentiable=lambda *arguments: _traced(*arguments),
)
backward_operator = define(
    "softmax_backward(Tensor y, Tensor dy, SymInt dim, float temperature, ScalarType dtype) "
    "-> Tensor",
    *(softmax_gradient, _fake, gradient_by_torch),
)


# --- reverse-mode differentiation ---


class _Differentiable(Function):
    """Softmax and its gradient by kernels."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, plan: Plan) -> torch.Tensor:
        y = plan.forward(x)
        ctx.plan = plan
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx: Any, dy: torch.Tensor) -> tuple[torch.Tensor, None]:
        (y,), plan = ctx.saved_tensors, ctx.plan
        gradient: Making = plan.gradient
        # where gradients are enabled, this one is to be differentiated in its turn
        if (
            is_dynamo_compiling()
            or torch.is_grad_enabled()
            or forward_ad._current_level >= 0
            or not gradient.alike(y, dy)
        ):
            if watched(dy) or not plain_gradient(dy):
                return gradient_by_torch(y, dy, *plan.settings), None
            if not (y.is_contiguous() and dy.is_contiguous()):
                return softmax_gradient(y, dy, *plan.settings), None
            gradient.alike = alike(y, dy)
        return gradient(y, dy), None


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
