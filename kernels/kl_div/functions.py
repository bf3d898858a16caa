"""`kl_div(student, teacher)`: KL divergence between rows of logits, by kernels.

The loss moves 2MN, and its gradient 2MN reads and MN writes. Nothing of size MN is kept for it.
PyTorch's operations compute the other cases: float64, a teacher that wants a gradient, the CPU, and
calls that a transform or dispatch mode observes.
"""

from __future__ import annotations

from typing import Any

import torch

from ..calls import (
    PLAIN,
    Plan,
    RowOp,
    define,
    gradient_of,
    like_rows,
    number,
    padded_like,
    run,
    runs_on,
    watched,
)
from ..repeat import Repeatable, aligned, dense
from .kernels import KlAuto

KERNEL = KlAuto()
REDUCTIONS = ("mean", "sum", "none")


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
        student: Logits (…, N), of a floating dtype. Rows of whole 16-byte vectors are read once.
        teacher: Logits of the same shape and dtype. If they want a gradient, PyTorch computes.
        temperature: T, a number from 1e-30 to 1e30. No factor T² is applied.
        reverse: Whether the loss is KL(student ‖ teacher).
        reduction: "mean" is over rows, "sum" adds them, "none" gives a loss (…) for each.

    Raises:
        RuntimeError: dtypes or devices differ, or the dtype is no floating one.
        TypeError: an argument has a wrong type.
        ValueError: shapes differ, there are no columns, or an option is out of range.
    """
    _check(student, teacher, reverse, reduction)
    options = number("temperature", temperature), reverse
    x, y = rows = _arranged(student), _arranged(teacher)
    if torch.compiler.is_compiling() and runs_on(student) and _takes(x, y):
        losses: torch.Tensor = OPERATOR(*rows, *options)
    elif watched(student) or type(teacher) not in PLAIN or not _takes(x, y):
        losses = by_torch(x, y, *options)
    else:
        plan = KL_DIV.plan(rows, options)
        losses = by_torch(x, y, *options) if plan is None else run(plan, *rows)
    if reduction == "none":
        return losses.view(student.shape[:-1])
    return losses.mean() if reduction == "mean" else losses.sum()


def _check(student: Any, teacher: Any, reverse: Any, reduction: Any) -> None:
    for name, value in (("student", student), ("teacher", teacher)):
        if not isinstance(value, torch.Tensor):
            given = type(value).__name__
            raise TypeError(f"kl_div(): argument '{name}' must be Tensor, not {given}")
    if type(reverse) is not bool:
        raise TypeError(f"kl_div(): argument 'reverse' must be bool, not {type(reverse).__name__}")
    if reduction not in REDUCTIONS:
        raise ValueError(f"kl_div(): reduction is {', '.join(REDUCTIONS)}, not {reduction!r}")
    if student.dim() == 0 or student.shape != teacher.shape or student.shape[-1] == 0:
        shapes = f"{tuple(student.shape)} and {tuple(teacher.shape)}"
        raise ValueError(f"kl_div(): both logits have one shape (…, N), N at least 1, not {shapes}")
    if not student.is_floating_point() or (student.dtype, student.device) != (
        teacher.dtype,
        teacher.device,
    ):
        kinds = f"{student.dtype} on {student.device} and {teacher.dtype} on {teacher.device}"
        raise RuntimeError(f"kl_div(): both logits have one floating dtype and device, not {kinds}")


def _takes(student: torch.Tensor, teacher: torch.Tensor) -> bool:
    kinds = (torch.float32, torch.float16, torch.bfloat16)
    return student.dtype in kinds and not teacher.requires_grad and student.numel() > 0


def _arranged(logits: torch.Tensor) -> torch.Tensor:
    """Rows of adjacent classes."""
    rows = logits.reshape(-1, logits.shape[-1])
    return rows if rows.stride(1) == 1 or rows.shape[1] == 1 else rows.contiguous()


def by_torch(
    student: torch.Tensor, teacher: torch.Tensor, temperature: float, reverse: bool
) -> torch.Tensor:
    """The loss of each row by PyTorch's operations."""
    wide = torch.promote_types(student.dtype, torch.float32)
    a, b = (torch.log_softmax(x.to(wide) / temperature, -1) for x in (teacher, student))
    a, b = (b, a) if reverse else (a, b)
    p = a.exp()
    return torch.where(p > 0, p * (torch.where(p > 0, a, 0.0) - b), 0.0).sum(-1)


def _plan(student: torch.Tensor, teacher: torch.Tensor, *options: Any) -> Plan | None:
    if not _takes(student, teacher):
        return None
    index = student.get_device()

    def forward(student: Any, teacher: Any, loss: Any) -> None:
        KERNEL.run(student, teacher, loss, None, None, *options)

    def backward(student: Any, teacher: Any, dloss: Any, dstudent: Any) -> None:
        KERNEL.run(student, teacher, None, dstudent, dloss, *options)

    launches = [Repeatable(backward, index, padded_like(student)) for _ in range(2)]

    def gradient(student: Any, teacher: Any, dloss: torch.Tensor) -> torch.Tensor:
        each = dloss.stride(0) != 0 and dloss.numel() > 1
        given = aligned(dloss if each else dloss[:1])
        dstudent: torch.Tensor = launches[each](student, teacher, given)[0]
        return dstudent

    call = Repeatable(forward, index, dense(student.shape[:1], torch.float32))
    return Plan(KL_DIV, options, call, gradient)


def _gradient_kernel(student: Any, teacher: Any, dloss: Any, *options: Any) -> torch.Tensor:
    plan = KL_DIV.plan((student, teacher), options) if runs_on(student) else None
    if plan is None:
        return _gradient_by_torch(student, teacher, dloss, *options)
    return plan.gradient(student, teacher, dloss)


def _gradient_by_torch(student: Any, teacher: Any, dloss: Any, *options: Any) -> torch.Tensor:
    return gradient_of(lambda x: (by_torch(x, teacher, *options),), student, [dloss])


KL_DIV: RowOp[Plan] = RowOp(
    schema="kl_div(Tensor student, Tensor teacher, float temperature, bool reverse) -> Tensor",
    plan_of=_plan,
    fake=lambda x, *_: x.new_empty(x.shape[:1], dtype=torch.promote_types(x.dtype, torch.float32)),
    by_torch=by_torch,
    saved=lambda tensors, _: tensors,
    gradient=define(
        "kl_div_backward(Tensor student, Tensor teacher, Tensor dloss, float temperature, "
        "bool reverse) -> Tensor",
        *(_gradient_kernel, lambda student, *_: like_rows(student), _gradient_by_torch),
    ),
    gradient_by_torch=_gradient_by_torch,
)
OPERATOR = KL_DIV.operator
