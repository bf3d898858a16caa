"""`log_softmax(x)` and `logsumexp(x)`, like PyTorch's own, by kernels along the last dimension.

log-softmax moves 2MN, and its gradient is PyTorch's own operation. logsumexp moves MN and keeps one
number per row; its gradient moves 2MN. A tensor with a contiguous last dimension is read in place
if the dimensions before it can be merged into one, else it is copied first. PyTorch's operations
compute the other cases: another dimension or several, empty input, another dtype of the result, the
CPU, and calls that a transform or dispatch mode observes.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import torch
from torch.autograd import Function

from ..calls import (
    DTYPES,
    KEPT,
    Tensors,
    below_autograd,
    define,
    gradient_of,
    like_rows,
    plain_gradient,
    runs_on,
    watched,
)
from ..cross_entropy import auto
from ..cross_entropy.gradients import row_gradient
from ..cross_entropy.rows import Options
from ..repeat import Making, Repeatable, aligned

Maybe = torch.Tensor | None


def log_softmax(x: torch.Tensor, dim: int = -1, dtype: torch.dtype | None = None) -> torch.Tensor:
    """`torch.log_softmax`: x − logsumexp(x) along a dimension, differentiable any number of times.

    16-bit input is computed in float32 and rounded once. Under autocast the result keeps the dtype
    of ``x``, as in `softmax`.

    Args:
        x: Any shape; float16, bfloat16, float32 or float64, or any other if ``dtype`` is given.
        dim: The dimension along which the exponentials of the result sum to one.
        dtype: The dtype of the result; ``x`` is cast to it first.

    Raises:
        IndexError, NotImplementedError, TypeError: as PyTorch's.
    """
    if watched(x) or not _by_rows(x, dim) or dtype not in (None, x.dtype):
        return _log_softmax_observed(x, dim, dtype)
    if x.requires_grad and torch.is_grad_enabled():
        return _log_softmax_differentiable(x, False)
    return _log_softmax_plain(x)


def logsumexp(x: torch.Tensor, dim: int = -1, keepdim: bool = False) -> torch.Tensor:
    """`torch.logsumexp`: log Σ exp(x) along a dimension, differentiable any number of times.

    16-bit input is computed in float32 and rounded once; under autocast the result keeps the dtype
    of ``x``.

    Args:
        x: Any shape and real dtype.
        dim: The dimension to reduce. PyTorch computes a tuple of several.
        keepdim: Whether the result keeps it, with size 1.

    Raises:
        IndexError, TypeError: as PyTorch's.
    """
    if not isinstance(x, torch.Tensor):
        return torch.logsumexp(x, dim, keepdim)  # its own error
    observed, takes = watched(x), _by_rows(x, dim) and runs_on(x)
    if not takes or (observed and not torch.compiler.is_compiling()):
        if x.dtype in (torch.float16, torch.bfloat16):
            return torch.logsumexp(x.float(), dim, keepdim).to(x.dtype)
        return torch.logsumexp(x, dim, keepdim)
    compute = numbers_operator if observed else row_numbers
    (*_, lse) = compute(x.reshape(-1, x.shape[-1]), None, 1.0)
    shape = x.shape[:-1]
    result: torch.Tensor = lse.to(x.dtype).view((*shape, 1) if keepdim else shape)
    return result


def _by_rows(x: torch.Tensor, dim: Any) -> bool:
    """Whether kernels can compute the result along ``dim``."""
    dims = x.dim()
    return (
        type(dim) is int
        and dims > 0
        and dim in (-1, dims - 1)
        and x.dtype in DTYPES
        and 0 not in x.shape
        and (x.stride(-1) == 1 or x.shape[-1] == 1)
    )


# --- log-softmax ---


def _log_softmax_observed(x: Any, dim: Any, dtype: torch.dtype | None) -> torch.Tensor:
    if (
        isinstance(x, torch.Tensor)
        and torch.compiler.is_compiling()
        and runs_on(x)
        and _by_rows(x, dim)
        and dtype in (None, x.dtype)
    ):
        y: torch.Tensor = log_softmax_operator(x)
        return y
    if isinstance(x, torch.Tensor) and dtype is None:
        dtype = x.dtype if x.dtype in DTYPES else None  # named, autocast does not change it
    return torch.log_softmax(x, dim, dtype)


def _log_softmax_plain(x: torch.Tensor) -> torch.Tensor:
    rows = x.reshape(-1, x.shape[-1])
    made = _log_softmax_plan(rows.shape, rows.stride(), x.dtype, x.get_device())(rows)
    return made.view(x.shape)


@lru_cache(maxsize=KEPT)
def _log_softmax_plan(shape: Any, strides: Any, dtype: torch.dtype, index: int) -> Making:
    return Making(lambda x, y: auto.run(x, y=y), shape, dtype, index)


def _log_softmax_kernel(x: torch.Tensor) -> torch.Tensor:
    if not (runs_on(x) and _by_rows(x, -1)):
        return torch.log_softmax(x, -1, x.dtype).contiguous()
    return _log_softmax_plain(x)


class _LogSoftmax(Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, traced: bool) -> torch.Tensor:
        y = below_autograd(log_softmax_operator, x) if traced else _log_softmax_plain(x)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx: Any, dy: torch.Tensor) -> tuple[torch.Tensor, None]:
        (y,) = ctx.saved_tensors
        return torch._log_softmax_backward_data(dy, y, y.dim() - 1, y.dtype), None


log_softmax_operator = define(
    "log_softmax(Tensor x) -> Tensor",
    _log_softmax_kernel,
    lambda x: x.new_empty(x.shape),
    lambda x: torch.log_softmax(x, -1, x.dtype),
    differentiable=lambda x: _log_softmax_differentiable(x, True),
)


# --- numbers of rows: logsumexp, or log p[target], entropy and logsumexp ---


def row_numbers(x: torch.Tensor, target: Maybe, temperature: float) -> Tensors:
    """logsumexp(z) of each row of ``x`` (M, N); with a target, log p[target] and the entropy.

    z is x / temperature. The results are float32 (float64 for float64).
    """
    plan = _numbers_plan(
        *(x.shape, x.stride(), x.dtype, x.get_device(), target is not None, temperature)
    )
    if x.requires_grad and torch.is_grad_enabled():
        return _numbers_differentiable(x, target, temperature, plan)
    return plan(x, target)[: 2 if target is not None else 1]


def numbers_by_torch(x: torch.Tensor, target: Maybe, temperature: float) -> Tensors:
    """log p[target], entropy and logsumexp by PyTorch; without a target only logsumexp."""
    wide = torch.promote_types(x.dtype, torch.float32)
    z = x.to(wide) / temperature
    lse = z.logsumexp(-1)
    if target is None:
        return x.new_empty(0, dtype=wide), x.new_empty(0, dtype=wide), lse
    chosen = z.gather(-1, target.unsqueeze(-1)).squeeze(-1)
    p = torch.softmax(z, -1)
    finite = torch.where(p > 0, z, 0.0)  # a logit of −inf adds nothing
    return chosen - lse, lse - (p * finite).sum(-1), lse


class _Numbers:
    """Computes the per-row numbers of one layout, and their gradient."""

    def __init__(self, dtype: torch.dtype, index: int, temperature: float) -> None:
        self.wide, self.temperature = torch.promote_types(dtype, torch.float32), temperature
        self._lse = Repeatable(lambda x, lse: auto.run(x, lse=lse), index)
        self._all = Repeatable(self._launch_all, index)
        # by the gradients that there are
        self._gradient = {
            (a, b): Repeatable(self._launch_gradient, index)
            for a in (True, False)
            for b in (True, False)
        }

    def __call__(self, x: torch.Tensor, target: Maybe) -> Tensors:
        """(lse,), or the log-probability, entropy and lse."""
        count = 1 if target is None else 3
        made = tuple(torch.empty(len(x), dtype=self.wide, device=x.device) for _ in range(count))
        if target is None:
            self._lse(x, *made)
        else:
            self._all(x, target, *made)
        return made

    def gradient(
        self,
        x: torch.Tensor,
        target: Maybe,
        entropy: Maybe,
        lse: Maybe,
        first: Maybe,
        second: Maybe,
    ) -> torch.Tensor:
        """The gradient of ``x``; ``first`` is the gradient of lse, or of the log-probability."""
        first, second = (None if each is None else aligned(each) for each in (first, second))
        dx = like_rows(x)
        launch = self._gradient[first is None, second is None]
        launch(x, target, entropy, lse, first, second, dx)
        return dx

    def _launch_all(self, x: Any, target: Any, logprob: Any, entropy: Any, lse: Any) -> None:
        options = Options(temperature=self.temperature)
        auto.run(x, options, target=target, logprob=logprob, entropy=entropy, lse=lse)

    def _launch_gradient(
        self, x: Any, target: Any, entropy: Any, lse: Any, first: Any, second: Any, dx: Any
    ) -> None:
        dlse, dlogprob = (first, None) if target is None else (None, first)
        row_gradient(x, lse, dlse, target, dlogprob, entropy, second, dx, self.temperature)


@lru_cache(maxsize=KEPT)
def _numbers_plan(
    shape: Any, strides: Any, dtype: torch.dtype, index: int, targets: bool, temperature: float
) -> _Numbers:
    return _Numbers(dtype, index, temperature)


def _plan_of(x: torch.Tensor, target: Maybe, temperature: float) -> _Numbers | None:
    if 0 in x.shape or x.dtype not in DTYPES or not runs_on(x):
        return None
    layout = x.shape, x.stride(), x.dtype, x.get_device()
    return _numbers_plan(*layout, target is not None, temperature)


def _numbers_kernel(x: torch.Tensor, target: Maybe, temperature: float) -> Tensors:
    plan = _plan_of(x, target, temperature)
    if plan is None:
        return numbers_by_torch(x, target, temperature)
    *others, lse = plan(x, target)
    none = x.new_empty(0, dtype=lse.dtype)
    return (*(others or (none, none.clone())), lse)


def _numbers_fake(x: torch.Tensor, target: Maybe, temperature: float) -> Tensors:
    wide = torch.promote_types(x.dtype, torch.float32)
    rows, _ = x.shape
    counts = (0, 0, rows) if target is None else (rows,) * 3
    return tuple(x.new_empty(count, dtype=wide) for count in counts)


def _gradient_kernel(
    x: torch.Tensor, target: Maybe, entropy: Maybe, lse: Maybe, first: Maybe, second: Maybe,
    temperature: float,
) -> torch.Tensor:  # fmt: skip
    plan = _plan_of(x, target, temperature)
    if plan is None:
        return _gradient_by_torch(x, target, entropy, lse, first, second, temperature)
    return plan.gradient(x, target, entropy, lse, first, second)


def _gradient_by_torch(
    x: torch.Tensor, target: Maybe, entropy: Maybe, lse: Maybe, first: Maybe, second: Maybe,
    temperature: float,
) -> torch.Tensor:  # fmt: skip
    def numbers(x: torch.Tensor) -> Tensors:
        logprob, entropy, lse = numbers_by_torch(x, target, temperature)
        both = (lse, lse) if target is None else (logprob, entropy)
        return tuple(y for y, dy in zip(both, (first, second), strict=True) if dy is not None)

    return gradient_of(numbers, x, [dy for dy in (first, second) if dy is not None])


numbers_operator = define(
    "row_numbers(Tensor x, Tensor? target, float temperature) -> (Tensor, Tensor, Tensor)",
    *(_numbers_kernel, _numbers_fake, numbers_by_torch),
    differentiable=lambda *arguments: _numbers_differentiable(*arguments, None),
)
gradient_operator = define(
    "row_numbers_backward(Tensor x, Tensor? target, Tensor? entropy, Tensor? lse, Tensor? first, "
    "Tensor? second, float temperature) -> Tensor",
    *(_gradient_kernel, lambda x, *_: like_rows(x), _gradient_by_torch),
)


class _RowNumbers(Function):
    """The numbers by kernels; without a plan by the operators, then always three."""

    @staticmethod
    def forward(
        ctx: Any, x: torch.Tensor, target: Maybe, temperature: float, plan: _Numbers | None
    ) -> Tensors:
        ctx.temperature, ctx.plan, ctx.targets = temperature, plan, target is not None
        ctx.set_materialize_grads(False)
        if plan is not None:
            made = plan(x, target)
        else:
            made = below_autograd(numbers_operator, x, target, temperature)
        *others, lse = made
        if ctx.targets:
            ctx.mark_non_differentiable(lse)
        elif plan is None:
            ctx.mark_non_differentiable(*others)
        ctx.save_for_backward(x, target, others[1] if ctx.targets else None, lse)
        return made

    @staticmethod
    def backward(ctx: Any, *grads: Maybe) -> tuple[Maybe, ...]:
        x, target, entropy, lse = ctx.saved_tensors
        first, second = grads[:2] if ctx.targets else (grads[-1], None)
        if first is None and second is None:
            return None, None, None, None
        arguments = x, target, entropy, lse, first, second
        if ctx.plan is None or torch.compiler.is_compiling():
            dx = gradient_operator(*arguments, ctx.temperature)
        elif plain_gradient(first, second):
            dx = ctx.plan.gradient(*arguments)
        else:
            dx = _gradient_by_torch(*arguments, ctx.temperature)
        return dx, None, None, None


# Function.apply itself first looks for functorch's wrappers, 2 µs; `watched` has ruled them out
_log_softmax_differentiable: Callable[..., torch.Tensor] = super(Function, _LogSoftmax).apply
_numbers_differentiable: Callable[..., Tensors] = super(Function, _RowNumbers).apply
