"""`kl_div(student, teacher)`: KL divergence between rows of logits, by kernels.

The loss moves 2MN, and its gradient 2MN reads and MN writes. Nothing of size MN is kept for it.
PyTorch's operations compute the other cases: float64, a teacher that wants a gradient, the CPU, and
calls that a transform or dispatch mode observes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from ..calls import RowOp, gradient_of, number, padded_like
from ..repeat import dense
from .kernels import KlAuto

KERNEL = KlAuto()
REDUCTIONS = ("mean", "sum", "none")
Options = tuple[float, bool]


def kl_div(
    student: torch.Tensor,
    teacher: torch.Tensor,
    *,
    temperature: float = 1.0,
    reverse: bool = False,
    reduction: str = "mean",
) -> torch.Tensor:
    """KL(softmax(teacher / T) ‖ softmax(student / T)) of each row, differentiable in ``student``.

    Computed in float32, which is the dtype of the result (float64 for float64). A class whose
    probability is 0 adds nothing, so both logits may be −inf; where the teacher's is finite and the
    student's is −inf the loss is infinite. A row's bits do not depend on the other rows.

    Args:
        student: Logits (…, N), of a floating dtype.
        teacher: Logits of the same shape and dtype. If they want a gradient, PyTorch computes.
        temperature: T, a number from 1e-30 to 1e30. No factor T² is applied.
        reverse: Whether the loss is KL(student ‖ teacher).
        reduction: "mean" is over rows, "sum" adds them, "none" gives a loss (…) for each.

    Raises:
        RuntimeError: dtypes or devices differ, or the dtype is no floating one.
        TypeError: an argument has a wrong type.
        ValueError: shapes differ, there are no columns, or an option is out of range.
    """
    if reduction not in REDUCTIONS:
        raise ValueError(f"kl_div(): reduction is {', '.join(REDUCTIONS)}, not {reduction!r}")
    if type(temperature) is not float:
        temperature = number("temperature", temperature)
    losses: torch.Tensor = KL_DIV.run((student, teacher), (temperature, reverse))
    if reduction == "none":
        return losses
    return losses.mean() if reduction == "mean" else losses.sum()


def _checked(student: Any, teacher: Any, temperature: float, reverse: bool) -> Options | None:
    for name, value in (("student", student), ("teacher", teacher)):
        if not isinstance(value, torch.Tensor):
            given = type(value).__name__
            raise TypeError(f"kl_div(): argument '{name}' must be Tensor, not {given}")
    if type(reverse) is not bool:
        raise TypeError(f"kl_div(): argument 'reverse' must be bool, not {type(reverse).__name__}")
    number("temperature", temperature)
    if student.dim() == 0 or student.shape != teacher.shape or student.shape[-1] == 0:
        shapes = f"{tuple(student.shape)} and {tuple(teacher.shape)}"
        raise ValueError(f"kl_div(): both logits have one shape (…, N), N at least 1, not {shapes}")
    kinds = [(x.dtype, x.device) for x in (student, teacher)]
    if not student.is_floating_point() or kinds[0] != kinds[1]:
        given = " and ".join(f"{dtype} on {device}" for dtype, device in kinds)
        raise RuntimeError(f"kl_div(): both logits have one floating dtype and device, not {given}")
    taken = student.dtype in KERNEL.dtypes and student.numel() > 0
    return (temperature, reverse) if taken else None


def _by_torch(student: Any, teacher: Any, temperature: float, reverse: bool) -> torch.Tensor:
    """The loss of each row by PyTorch's operations."""
    _checked(student, teacher, temperature, reverse)
    wide = torch.promote_types(student.dtype, torch.float32)
    a, b = (torch.log_softmax(x.to(wide) / temperature, -1) for x in (teacher, student))
    a, b = (b, a) if reverse else (a, b)
    p = a.exp()
    return torch.where(p > 0, p * (torch.where(p > 0, a, 0.0) - b), 0.0).sum(-1)


def _rows(x: torch.Tensor) -> torch.Tensor:
    """Rows of adjacent classes."""
    rows = x.reshape(-1, x.shape[-1])
    return rows if rows.stride(1) == 1 or rows.shape[1] == 1 else rows.contiguous()


def _work(student: Any, teacher: Any, *options: Any) -> Callable[..., None]:
    return lambda student, teacher, loss: KERNEL.run(student, teacher, loss, None, None, *options)


def _gradient_work(student: Any, teacher: Any, dloss: Any, *options: Any) -> Callable[..., None]:
    def launch(student: Any, teacher: Any, dloss: Any, dstudent: Any) -> None:
        KERNEL.run(student, teacher, None, dstudent, dloss, *options)

    return launch


def _gradient_by_torch(student: Any, teacher: Any, dloss: Any, *options: Any) -> torch.Tensor:
    return gradient_of(lambda x: (_by_torch(x, teacher, *options),), student, [dloss])


def _one_or_each(student: Any, teacher: Any, dloss: torch.Tensor, *_: Any) -> tuple[Any, ...]:
    """The loss's gradient as one number where it is the same for all rows."""
    return student, teacher, dloss[:1] if dloss.stride(0) == 0 else dloss.contiguous()


GRADIENT = RowOp(
    schema="kl_div_backward(Tensor student, Tensor teacher, Tensor dloss, float temperature, "
    "bool reverse) -> Tensor",
    checked=lambda student, teacher, dloss, *options: options,
    answers=lambda student, *_: [padded_like(student)],
    work=_gradient_work,
    by_torch=_gradient_by_torch,
    arranged=_one_or_each,
)
KL_DIV = RowOp(
    schema="kl_div(Tensor student, Tensor teacher, float temperature, bool reverse) -> Tensor",
    checked=_checked,
    answers=lambda x, *_: [dense(x.shape[:1], torch.float32)],
    work=_work,
    by_torch=_by_torch,
    arranged=lambda student, teacher, *_: (_rows(student), _rows(teacher)),
    shape=lambda student, *_: student.shape[:-1],
    gradient=GRADIENT,
    saved=lambda tensors, _: tensors,
)
