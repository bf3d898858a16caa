"""`log_softmax(x)` and `logsumexp(x)`, like PyTorch's own, by kernels along the last dimension.

log-softmax moves 2MN, and its gradient is PyTorch's own operation. logsumexp moves MN and keeps one
number per row; its gradient moves 2MN. A tensor with a contiguous last dimension is read in place
if the dimensions before it can be merged into one, else it is copied first. PyTorch's operations
compute the other cases: another dimension or several, empty input, another dtype of the result, the
CPU, and calls that a transform or dispatch mode observes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from ..calls import (
    DTYPES,
    Plan,
    RowOp,
    Tensors,
    define,
    gradient_of,
    like_rows,
    padded_like,
    run,
    runs_on,
    same_layouts,
    watched,
)
from ..cross_entropy import auto
from ..cross_entropy.gradients import row_gradient
from ..cross_entropy.rows import Options
from ..lines import lines
from ..repeat import Repeatable, aligned, dense

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
    if dtype is None and type(dim) is int and dim == -1:
        plan = LOG_SOFTMAX.recall((x,), ())
        if plan is not None:
            return run(plan, x)  # type: ignore[no-any-return]
    if isinstance(x, torch.Tensor) and _by_rows(x, dim) and dtype in (None, x.dtype):
        if torch.compiler.is_compiling() and runs_on(x):
            return log_softmax_operator(x)  # type: ignore[no-any-return]
        if not watched(x) and (plan := LOG_SOFTMAX.plan((x,), ())) is not None:
            return run(plan, x)  # type: ignore[no-any-return]
    if isinstance(x, torch.Tensor) and dtype is None:
        if x.is_cpu and x.dtype in (torch.float16, torch.bfloat16):  # PyTorch's rounds on the way
            return torch.log_softmax(x, dim, torch.float32).to(x.dtype)
        dtype = x.dtype if x.dtype in DTYPES else None  # named, autocast does not change it
    return torch.log_softmax(x, dim, dtype)


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
    if type(dim) is int and dim == -1 and not keepdim:
        plan = NUMBERS.recall((x,), (1.0,))
        if plan is not None and plan.direct:
            lse: torch.Tensor = run(plan, x)
            return lse if lse.dtype is x.dtype else lse.to(x.dtype)
    if not isinstance(x, torch.Tensor):
        return torch.logsumexp(x, dim, keepdim)  # its own error
    compiling = torch.compiler.is_compiling()
    if not (_by_rows(x, dim) and runs_on(x)) or (not compiling and watched(x)):
        if x.dtype in (torch.float16, torch.bfloat16):
            return torch.logsumexp(x.float(), dim, keepdim).to(x.dtype)
        return torch.logsumexp(x, dim, keepdim)
    (lse,) = row_numbers(1.0, x)
    shape = x.shape[:-1]
    return lse.to(x.dtype).view((*shape, 1) if keepdim else shape)


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


def _log_softmax_plan(x: torch.Tensor) -> Plan | None:
    if not _by_rows(x, -1):
        return None
    cols = x.shape[-1]

    def launch(x: torch.Tensor, y: torch.Tensor) -> None:
        auto.run(x.view(-1, cols), y=y.view(-1, cols))

    call = Repeatable(launch, x.get_device(), dense(x.shape, x.dtype))
    plan = Plan(LOG_SOFTMAX, (), call, _log_softmax_gradient)
    plan.direct = lines(x.shape, x.stride(), x.dim() - 1) is not None
    return plan


def _log_softmax_gradient(y: torch.Tensor, dy: torch.Tensor) -> torch.Tensor:
    return torch._log_softmax_backward_data(dy, y, y.dim() - 1, y.dtype)


LOG_SOFTMAX = RowOp(
    schema="log_softmax(Tensor x) -> Tensor",
    plan_of=_log_softmax_plan,
    fake=lambda x: x.new_empty(x.shape),
    by_torch=lambda x: torch.log_softmax(x, -1, x.dtype).contiguous(),
    saved=lambda _, answers: answers,
    gradient=_log_softmax_gradient,
    gradient_by_torch=_log_softmax_gradient,
    arranged=lambda x: (x.contiguous(),),
)
log_softmax_operator = LOG_SOFTMAX.operator


# --- numbers of rows: logsumexp, or log p[target], entropy and logsumexp ---


def row_numbers(temperature: float, *tensors: torch.Tensor) -> Tensors:
    """(logsumexp(z),) of each row of x (…, N); with a target (…), log p[target] and the entropy.

    z is x / temperature. The results are (M,), float32 (float64 for float64). Takes plain calls on
    a device with kernels, and compiled ones.
    """
    if torch.compiler.is_compiling():
        x, *target = _arranged(*tensors)
        made: Tensors = numbers_operator(x, target[0] if target else None, temperature)
        return made[: len(tensors)]
    plan = NUMBERS.plan(tensors, (temperature,))
    assert plan is not None
    made = run(plan, *tensors)
    return (made,) if plan.shown == 1 else made  # type: ignore[return-value]


def numbers_by_torch(x: torch.Tensor, target: Maybe, temperature: float) -> Tensors:
    """log p[target], entropy and logsumexp by PyTorch; without a target logsumexp comes first."""
    wide = torch.promote_types(x.dtype, torch.float32)
    z = x.to(wide) / temperature
    lse = z.logsumexp(-1)
    if target is None:
        return lse, x.new_empty(0, dtype=wide), x.new_empty(0, dtype=wide)
    chosen = z.gather(-1, target.unsqueeze(-1)).squeeze(-1)
    p = torch.softmax(z, -1)
    finite = torch.where(p > 0, z, 0.0)  # a logit of −inf adds nothing
    return chosen - lse, lse - (p * finite).sum(-1), lse


def _numbers_plan(x: torch.Tensor, *rest: Any) -> Plan | None:
    *target, temperature = rest
    if 0 in x.shape or x.dtype not in DTYPES:
        return None
    rows = _arranged(x, *target)
    each = dense(rows[0].shape[:1], torch.promote_types(x.dtype, torch.float32))
    dx, index = padded_like(rows[0]), x.get_device()

    def logsumexp_of(x: Any, lse: Any) -> None:
        auto.run(x, lse=lse)

    def all_of(x: Any, target: Any, logprob: Any, entropy: Any, lse: Any) -> None:
        options = Options(temperature=temperature)
        auto.run(x, options, target=target, logprob=logprob, entropy=entropy, lse=lse)

    def launch(
        x: Any, target: Any, entropy: Any, lse: Any, first: Any, second: Any, dx: Any
    ) -> None:
        dlse, dlogprob = (first, None) if target is None else (None, first)
        row_gradient(x, lse, dlse, target, dlogprob, entropy, second, dx, temperature)

    launches = {  # by the gradients that there are
        there: Repeatable(launch, index, dx)
        for there in ((True, True), (True, False), (False, True))
    }

    def gradient(
        x: Any, target: Any, entropy: Any, lse: Any, first: Any, second: Any = None
    ) -> Any:
        if target is None:
            second = None
        first, second = (None if each is None else aligned(each) for each in (first, second))
        repeatable = launches[first is not None, second is not None]
        return repeatable(x, target, entropy, lse, first, second)[0]

    call = Repeatable(all_of, index, each, each, each)
    if not target:
        call = Repeatable(logsumexp_of, index, each)
    plan = Plan(NUMBERS, (temperature,), call, gradient, shown=1 + len(target))
    plan.direct = same_layouts(rows, (x, *target))
    return plan


def _arranged(x: torch.Tensor, *target: torch.Tensor) -> Tensors:
    """Rows of adjacent elements, and their targets."""
    rows = x.reshape(-1, x.shape[-1])
    if rows.stride(1) != 1 and rows.shape[1] > 1:
        rows = rows.contiguous()
    return rows, *(each.reshape(-1).contiguous() for each in target)


def _saved(tensors: Tensors, answers: Sequence[torch.Tensor]) -> Sequence[Maybe]:
    x, *target = tensors
    return (x, *target, *answers[1:]) if target else (x, None, None, answers[0])


def _fake(x: torch.Tensor, target: Maybe, temperature: float) -> Tensors:
    wide = torch.promote_types(x.dtype, torch.float32)
    rows, _ = x.shape
    counts = (rows, 0, 0) if target is None else (rows,) * 3
    return tuple(x.new_empty(count, dtype=wide) for count in counts)


def _gradient_kernel(x: torch.Tensor, target: Maybe, *rest: Any) -> torch.Tensor:
    tensors = (x,) if target is None else (x, target)
    plan = NUMBERS.plan(tensors, rest[-1:]) if runs_on(x) else None
    if plan is None:
        return _gradient_by_torch(x, target, *rest)
    return plan.gradient(*(*plan.op.arranged(*tensors), None)[:2], *rest[:-1])


def _gradient_by_torch(
    x: torch.Tensor, target: Maybe, entropy: Maybe, lse: Maybe, first: Maybe, second: Maybe,
    temperature: float,
) -> torch.Tensor:  # fmt: skip
    grads = first, second if target is not None else None

    def numbers(x: torch.Tensor) -> Tensors:
        made = numbers_by_torch(x, target, temperature)
        return tuple(y for y, dy in zip(made, grads, strict=False) if dy is not None)

    return gradient_of(numbers, x, [dy for dy in grads if dy is not None])


gradient_operator = define(
    "row_numbers_backward(Tensor x, Tensor? target, Tensor? entropy, Tensor? lse, Tensor? first, "
    "Tensor? second, float temperature) -> Tensor",
    *(_gradient_kernel, lambda x, *_: like_rows(x), _gradient_by_torch),
)
NUMBERS = RowOp(
    schema="row_numbers(Tensor x, Tensor? target, float temperature) -> (Tensor, Tensor, Tensor)",
    plan_of=_numbers_plan,
    fake=_fake,
    by_torch=numbers_by_torch,
    saved=_saved,
    gradient=gradient_operator,
    gradient_by_torch=_gradient_by_torch,
    differentiable=2,
    arranged=_arranged,
)
numbers_operator = NUMBERS.operator
