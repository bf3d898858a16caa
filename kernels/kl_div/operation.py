"""KL(teacher‖student) of each row of two M×N matrices of logits, and its gradient."""

from __future__ import annotations

from typing import ClassVar

import torch
from typing_extensions import override

from ..kernel import SHIFTED, Array, Operation, Tensors, as_tuple
from ..traffic import M

LOSS = Array("loss", (M,), torch.float32, either=True)


class KlDiv(Operation):
    """loss = Σ p·(log p − log q), with p = softmax(teacher) and q = softmax(student)."""

    name = "kl_div"
    logits: ClassVar = {"student": SHIFTED}
    inputs = (Array("student"), Array("teacher"))
    outputs: ClassVar[tuple[Array, ...]] = (LOSS,)
    roof = "read"

    @override
    def reference(self, student: torch.Tensor, teacher: torch.Tensor) -> Tensors:
        logp, logq = (torch.log_softmax(x.double(), -1) for x in (teacher, student))
        return (logp.exp() * (logp - logq)).sum(-1)

    @override
    def magnitude(self, student: torch.Tensor, teacher: torch.Tensor) -> Tensors:
        """See `Operation`: Σ p·|teacher − student|, and both logarithms of sums."""
        student, teacher = student.double(), teacher.double()
        p = torch.softmax(teacher, -1)
        sums = student.logsumexp(-1).abs() + teacher.logsumexp(-1).abs()
        return (p * (teacher - student).abs()).sum(-1) + sums


class KlDivGrad(KlDiv):
    """The divergence of each row, and the gradient of their sum to the student, in one call."""

    name = "kl_div_grad"
    outputs = (LOSS, Array("dstudent"))
    row_sums: ClassVar = {"dstudent": 0.0}
    roof = "add"

    @override
    def reference(self, student: torch.Tensor, teacher: torch.Tensor) -> Tensors:
        p, q = (torch.softmax(x.double(), -1) for x in (teacher, student))
        return *as_tuple(super().reference(student, teacher)), q - p

    @override
    def magnitude(self, student: torch.Tensor, teacher: torch.Tensor) -> Tensors:
        """See `Operation`; of the gradient p + q."""
        p, q = (torch.softmax(x.double(), -1) for x in (teacher, student))
        return *as_tuple(super().magnitude(student, teacher)), p + q


KL_DIV, KL_DIV_GRAD = KlDiv(), KlDivGrad()
