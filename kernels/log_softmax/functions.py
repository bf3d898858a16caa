"""`log_softmax(x)`, `logsumexp(x)` and `logprob_entropy(logits, target)`: kernels for rows.

log-softmax moves 2MN, and its gradient 3MN. logsumexp, and log-probability with entropy, move MN
and keep one or two numbers per row; their gradient moves 2MN. PyTorch's operations compute another
dimension or several, empty input, and another dtype of the result.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch

from ..calls import (
    DTYPES,
    Maybe,
    RowOp,
    Tensors,
    as_rows,
    check_types,
    gradient_of,
    number,
    padded_like,
)
from ..cross_entropy import variants
from ..cross_entropy.rows import Call, Options
from ..lines import lines
from ..repeat import TensorSpec, dense
from ..softmax_backward.variants import LogSoftmaxBackwardAuto

SMALL = (torch.float16, torch.bfloat16)
OF_LOG_SOFTMAX, OF_NUMBERS = LogSoftmaxBackwardAuto(), variants.LogprobEntropyBackwardAuto()


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
    if type(dim) is not int:
        return _log_softmax_by_torch(x, dim, dtype)
    return LOG_SOFTMAX_OP.run((x,), (dim, dtype))  # type: ignore[no-any-return]


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
    if type(dim) is int and (dim == -1 or (isinstance(x, torch.Tensor) and dim == x.dim() - 1)):
        lse: torch.Tensor = NUMBERS_OP.run((x,), (1.0,))
        lse = lse.to(x.dtype) if x.dtype in SMALL else lse
        return lse.unsqueeze(-1) if keepdim and x.dim() > 0 else lse
    if isinstance(x, torch.Tensor) and x.dtype in SMALL:
        return torch.logsumexp(x.float(), dim, keepdim).to(x.dtype)
    return torch.logsumexp(x, dim, keepdim)


def logprob_entropy(
    logits: torch.Tensor,
    target: torch.Tensor,
    *,
    temperature: float = 1.0,
    ignore_index: int | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """log p[target] and the entropy −Σ p·log p in one read; p = softmax(logits / temperature).

    Both are float32 (float64 for float64) and differentiable in ``logits``. A target that is not a
    class makes the log-probability and gradient of its row NaN.

    Args:
        logits: (…, N), of a floating dtype; read in place if its classes are adjacent and its
            other dimensions can be merged into one, else copied first.
        target: (…), int64.
        temperature: From 1e-30 to 1e30.
        ignore_index: Rows with this target have 0 for both, and no part in the gradient.

    Raises:
        RuntimeError: the target has a wrong dtype or device, or the logits no floating dtype.
        TypeError: an argument has a wrong type.
        ValueError: shapes differ, or the temperature is out of range.
    """
    if type(temperature) is not float:
        temperature = number("temperature", temperature)
    if target is None or ignore_index is not None:
        _check_target(logits, target, temperature)
    if ignore_index is None:
        return NUMBERS_OP.run((logits, target), (temperature,))  # type: ignore[no-any-return]
    if not isinstance(ignore_index, int) or isinstance(ignore_index, bool):
        raise TypeError(f"ignore_index must be int, not {type(ignore_index).__name__}")
    ignored = target == ignore_index
    logprob, entropy = NUMBERS_OP.run((logits, target.masked_fill(ignored, 0)), (temperature,))
    return logprob.masked_fill(ignored, 0), entropy.masked_fill(ignored, 0)


# --- log-softmax ---


def _log_softmax_checked(
    x: torch.Tensor, dim: int, dtype: torch.dtype | None
) -> tuple[int, torch.dtype] | None:
    last = dim in (-1, x.dim() - 1) and dtype in (None, x.dtype)
    return (dim, x.dtype) if last and _takes(x) and _adjacent(x) else None


def _takes(x: torch.Tensor) -> bool:
    return x.dim() > 0 and 0 not in x.shape and x.dtype in DTYPES


def _adjacent(x: torch.Tensor) -> bool:
    return x.stride(-1) == 1 or x.shape[-1] == 1


def _log_softmax_by_torch(x: Any, dim: Any, dtype: torch.dtype | None) -> torch.Tensor:
    if isinstance(x, torch.Tensor) and dtype is None:
        if x.is_cpu and x.dtype in SMALL:  # PyTorch's rounds on the way
            return torch.log_softmax(x, dim, torch.float32).to(x.dtype)
        dtype = x.dtype if x.dtype in DTYPES else None  # named, autocast does not change it
    return torch.log_softmax(x, dim, dtype)


LOG_SOFTMAX_GRADIENT_OP = RowOp(
    schema="log_softmax_backward(Tensor y, Tensor dy) -> Tensor",
    checked=lambda *_: (),
    answers=lambda y, *_: [dense(y.shape, y.dtype)],
    work=lambda *_: (
        lambda y, dy, dx: OF_LOG_SOFTMAX.into(
            (as_rows(y), as_rows(dy), as_rows(dx)), OF_LOG_SOFTMAX.usual
        )
    ),
    by_torch=lambda y, dy: torch._log_softmax_backward_data(dy, y, -1, y.dtype),
    arranged=lambda y, dy: (y.contiguous(), dy.contiguous()),
)
LOG_SOFTMAX_OP = RowOp(
    schema="log_softmax(Tensor x, int dim, ScalarType dtype) -> Tensor",
    checked=_log_softmax_checked,
    answers=lambda x, *_: [dense(x.shape, x.dtype)],
    work=lambda *_: lambda x, y: variants.run(Call(as_rows(x), y=as_rows(y))),
    by_torch=_log_softmax_by_torch,
    arranged=lambda x, *_: (x if lines(x, x.dim() - 1) else x.contiguous(),),
    gradient=LOG_SOFTMAX_GRADIENT_OP,
    gradient_options=lambda *_: (),  # rows are along the last dimension
)


# --- numbers of rows: logsumexp, or log p[target], entropy and logsumexp ---


def _numbers_checked(x: torch.Tensor, target: Maybe, temperature: float) -> tuple[float] | None:
    if target is not None:
        _check_target(x, target, temperature)
        return (temperature,) if _takes(x) else None
    return (temperature,) if _takes(x) and _adjacent(x) else None


def _check_target(logits: Any, target: Any, temperature: float) -> None:
    """Checks the arguments of `logprob_entropy`, which may have any type."""
    check_types("logprob_entropy", torch.Tensor, logits=logits, target=target)
    number("temperature", temperature)
    if logits.dim() == 0 or target.shape != logits.shape[:-1]:
        raise ValueError(
            f"logprob_entropy(): of logits (…, N) there is a target (…) for each row, "
            f"not {tuple(target.shape)} of {tuple(logits.shape)}"
        )
    kinds = target.dtype, target.device
    if not logits.is_floating_point() or kinds != (torch.int64, logits.device):
        raise RuntimeError(
            "logprob_entropy(): logits are of a floating dtype, and targets int64 on their device, "
            f"not {logits.dtype} on {logits.device} and {kinds[0]} on {kinds[1]}"
        )


def _numbers_by_torch(x: torch.Tensor, target: Maybe, temperature: float) -> Any:
    """logsumexp, or with a target log p[target] and entropy."""
    if target is None:
        return torch.logsumexp(x.float() if getattr(x, "dtype", None) in SMALL else x, -1)
    _check_target(x, target, temperature)
    z = x.to(torch.promote_types(x.dtype, torch.float32)) / temperature
    lse = z.logsumexp(-1)
    known = (target >= 0) & (target < z.shape[-1])
    chosen = z.gather(-1, target.where(known, 0).unsqueeze(-1)).squeeze(-1)
    p = torch.softmax(z, -1)
    finite = torch.where(p > 0, z, 0.0)  # a logit of −inf adds nothing
    # a product, so that the gradient of such a row is NaN too
    factor = torch.ones_like(lse).masked_fill(~known, torch.nan)
    return (chosen - lse) * factor, lse - (p * finite).sum(-1)


def _numbers_answers(x: torch.Tensor, target: Maybe, temperature: float) -> Sequence[TensorSpec]:
    each = dense(x.shape[:1], torch.promote_types(x.dtype, torch.float32))
    return [each] if target is None else [each] * 3


def _numbers(
    options: Options, x: Any, target: Maybe, first: Any, entropy: Maybe = None, lse: Maybe = None
) -> None:
    if target is None:
        variants.run(Call(x, lse=first))
    else:
        variants.run(Call(x, target, options, logprob=first, entropy=entropy, lse=lse))


def _saved(tensors: Sequence[Any], answers: Sequence[Any]) -> Sequence[Maybe]:
    x, target = (*tensors, None)[:2]
    return (x, None, None, answers[0]) if target is None else (x, target, *answers[1:])


def _gradient(options: Options, x: Any, target: Maybe, *rows_and_dx: Any) -> None:
    entropy, lse, first, second, dx = rows_and_dx
    second = None if target is None else second  # without a target the second answer is empty
    target = None if first is None else target
    call = Call(x, target, options, dlogprob=first, entropy=entropy, dentropy=second)
    OF_NUMBERS.run(call._replace(lse=lse, dlogits=dx))


def _gradient_by_torch(
    x: torch.Tensor, target: Maybe, entropy: Maybe, lse: Any, *rest: Any
) -> torch.Tensor:
    *grads, temperature = rest

    def numbers(x: torch.Tensor) -> Tensors:
        made = _numbers_by_torch(x, target, temperature)
        made = made if isinstance(made, tuple) else (made,)
        return tuple(y for y, dy in zip(made, grads, strict=False) if dy is not None)

    grads = grads[: 1 if target is None else 2]
    return gradient_of(numbers, x, [dy for dy in grads if dy is not None])


GRADIENT_OP = RowOp(
    schema="row_numbers_backward(Tensor x, Tensor? target, Tensor? entropy, Tensor lse, "
    "Tensor? first, Tensor? second, float temperature) -> Tensor",
    checked=lambda x, *rest: rest[-1:],
    answers=lambda x, *_: [padded_like(x)],
    work=lambda *given: partial(_gradient, Options(temperature=given[-1])),
    by_torch=_gradient_by_torch,
    arranged=lambda *given: (
        *given[:4],
        *(dy if dy is None else dy.contiguous() for dy in given[4:6]),
    ),
)
NUMBERS_OP = RowOp(
    schema="row_numbers(Tensor x, Tensor? target, float temperature) -> (Tensor, Tensor, Tensor)",
    checked=_numbers_checked,
    answers=_numbers_answers,
    work=lambda x, target, temperature: partial(_numbers, Options(temperature=temperature)),
    by_torch=_numbers_by_torch,
    arranged=lambda x, target, *_: (
        as_rows(x),
        None if target is None else target.reshape(-1).contiguous(),
    ),
    shape=lambda x, *_: x.shape[:-1],
    gradient=GRADIENT_OP,
    saved=_saved,
    differentiable=2,
)
