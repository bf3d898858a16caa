"""KL(teacher‖student) of each row of two M×N matrices of logits, and its gradient."""

from __future__ import annotations

from typing import ClassVar

import torch
from typing_extensions import override

from ..kernel import SHIFTED, Array, Operation
from ..traffic import M

Rows = tuple[torch.Tensor, torch.Tensor]
LOGITS = (Array("student"), Array("teacher"))
LOSS = Array("loss", (M,), torch.float32, either=True)


class KlDiv(Operation):
    """loss = Σ p·(log p − log q), with p = softmax(teacher) and q = softmax(student)."""

    name = "kl_div"
    logits: ClassVar = {"student": SHIFTED}
    inputs = LOGITS
    outputs: ClassVar[tuple[Array, ...]] = (LOSS,)
    roof = "read"

    @override
    def reference(self, student: torch.Tensor, teacher: torch.Tensor) -> torch.Tensor | Rows:
        return _loss(student, teacher)

    @override
    def magnitude(self, student: torch.Tensor, teacher: torch.Tensor) -> torch.Tensor | Rows:
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
    def reference(self, student: torch.Tensor, teacher: torch.Tensor) -> Rows:
        p, q = (torch.softmax(x.double(), -1) for x in (teacher, student))
        return _loss(student, teacher), q - p

    @override
    def magnitude(self, student: torch.Tensor, teacher: torch.Tensor) -> Rows:
        """See `Operation`; of the gradient p + q."""
        loss = super().magnitude(student, teacher)
        assert isinstance(loss, torch.Tensor)
        return loss, torch.softmax(teacher.double(), -1) + torch.softmax(student.double(), -1)


def _loss(student: torch.Tensor, teacher: torch.Tensor) -> torch.Tensor:
    logp, logq = (torch.log_softmax(x.double(), -1) for x in (teacher, student))
    return (logp.exp() * (logp - logq)).sum(-1)


KL_DIV, KL_DIV_GRAD = KlDiv(), KlDivGrad()
