"""`kl_div(student, teacher)`: KL divergence between rows of logits, by kernels.

PyTorch's operations compute float64 and a teacher that wants a gradient.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch

from ..calls import CallPlan, RowOp, as_rows, check_types, gradient_of, number, padded_like
from ..overwriting import in_place
from ..repeat import dense
from .kernels import KlAuto

KERNEL = KlAuto()
KlOptions = tuple[float, bool]


def kl_div(
    student: torch.Tensor,
    teacher: torch.Tensor,
    *,
    temperature: float = 1.0,
    reverse: bool = False,
    reduction: str = "mean",
    inplace: bool = False,
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
        inplace: Lets the gradient overwrite ``student`` if a gradient is needed and a kernel
            computes it, but not under `torch.compile`; O(M) memory beside the inputs. Later use of
            ``student``, or of a tensor that shares its memory, is an error. The gradient cannot be
            taken twice or differentiated. ``student`` must not be a leaf.

    Raises:
        RuntimeError: dtypes or devices differ, the dtype is no floating one, or a leaf would be
            overwritten.
        TypeError: an argument has a wrong type.
        ValueError: shapes differ, there are no columns, or an option is out of range.
    """
    if reduction not in REDUCTIONS:
        raise ValueError(f"kl_div(): reduction is {', '.join(REDUCTIONS)}, not {reduction!r}")
    if type(temperature) is not float:
        temperature = number("temperature", temperature)
    given, (finish, both) = ((student, teacher), (temperature, reverse)), REDUCTIONS[reduction]
    loss = in_place("kl_div", KL_DIV_OP, *given, both, finish) if inplace else KL_DIV_OP.run(*given)
    return loss if finish is None or loss.dim() == 0 else finish(loss)


def _checked(student: Any, teacher: Any, temperature: float, reverse: bool) -> KlOptions | None:
    check_types("kl_div", torch.Tensor, student=student, teacher=teacher)
    check_types("kl_div", bool, reverse=reverse)
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
    none = p == 0  # not where p is NaN
    return torch.where(none, 0.0, p * (torch.where(none, 0.0, a) - b)).sum(-1)


def _gradient(options: KlOptions, student: Any, teacher: Any, dloss: Any, dstudent: Any) -> None:
    KERNEL.run(options, student, teacher, None, dstudent, dloss)


def _both(mean: bool, plan: CallPlan, student: Any, teacher: Any, losses: Any) -> None:
    """See `in_place`."""
    scale = 1 / len(student) if mean else 1.0
    KERNEL.run(plan.options, student, teacher, losses, student, scale=scale)


# What reduces the losses, and what launches loss and gradient of such a sum
REDUCTIONS: dict[str, tuple[Any, Any]] = {
    "mean": (torch.mean, partial(_both, True)),
    "sum": (torch.sum, partial(_both, False)),
    "none": (None, None),
}
GRADIENT_OP = RowOp(
    schema="kl_div_backward(Tensor student, Tensor teacher, Tensor dloss, float temperature, "
    "bool reverse) -> Tensor",
    checked=lambda student, teacher, dloss, *options: options,
    answers=lambda student, *_: [padded_like(student)],
    work=lambda student, teacher, dloss, *options: partial(_gradient, options),
    by_torch=lambda student, teacher, dloss, *options: gradient_of(
        lambda x: (_by_torch(x, teacher, *options),), student, [dloss]
    ),
    # the loss's gradient as one number where it is the same for all rows
    arranged=lambda student, teacher, dloss, *_: (
        *(student, teacher),
        dloss[:1] if dloss.stride(0) == 0 else dloss.contiguous(),
    ),
)
KL_DIV_OP = RowOp(
    schema="kl_div(Tensor student, Tensor teacher, float temperature, bool reverse) -> Tensor",
    checked=_checked,
    answers=lambda x, *_: [dense(x.shape[:1], torch.float32)],
    work=lambda student, teacher, *options: partial(KERNEL.run, options),
    by_torch=_by_torch,
    arranged=lambda student, teacher, *_: (as_rows(student), as_rows(teacher)),
    shape=lambda student, *_: student.shape[:-1],
    gradient=GRADIENT_OP,
    saved=lambda tensors, _: tensors,
)
