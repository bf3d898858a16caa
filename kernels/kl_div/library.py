"""The divergence by PyTorch's formula, eager and compiled, and by Liger-Kernel.

Passes, of PyTorch: two log-softmax, then exp, difference, product and sum of `F.kl_div`. Liger's
kernel takes the student's log-softmax and the teacher's softmax, which PyTorch makes first, in
float32: of 16 bit the loss would have two digits.
On chip: nominally a row.
Source: `torch.nn.functional.kl_div`; `liger_kernel/ops/kl_div.py` of the package liger-kernel.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import sympy
import torch
import torch.nn.functional as F
from typing_extensions import override

from ..compiled import CompiledFormula
from ..kernel import Kernel, Operation
from ..peer import LIGER, Peer
from ..traffic import M, N, Traffic
from .operation import KL_DIV, KL_DIV_GRAD

Pair = tuple[torch.Tensor, torch.Tensor]


def _loss(student: torch.Tensor, teacher: torch.Tensor) -> torch.Tensor:
    logq, logp = F.log_softmax(student, 1), F.log_softmax(teacher, 1)
    return F.kl_div(logq, logp, reduction="none", log_target=True).sum(1)


def _in_float32(student: torch.Tensor, teacher: torch.Tensor) -> torch.Tensor:
    return _loss(student.float(), teacher.float())


def _with_gradient(student: torch.Tensor, teacher: torch.Tensor) -> Pair:
    logq, logp = F.log_softmax(student.float(), 1), F.log_softmax(teacher.float(), 1)
    p = logp.exp()
    return (p * (logp - logq)).sum(1), (logq.exp() - p).to(student.dtype)


@dataclass(frozen=True)
class KlTorch(Kernel):
    """`F.kl_div` of two log-softmax, summed over each row. It has no tunables."""

    operation: ClassVar[Operation] = KL_DIV
    backend = "eager"
    moves = Traffic(reads=8 * M * N, writes=5 * M * N + M)
    on_chip = N

    @override
    def __call__(self, student: torch.Tensor, teacher: torch.Tensor) -> torch.Tensor | Pair:
        return _loss(student, teacher)


@dataclass(frozen=True)
class KlGradTorch(KlTorch):
    """The same, and its backward pass."""

    operation = KL_DIV_GRAD
    moves = Traffic(reads=12 * M * N + M, writes=8 * M * N + 2 * M)

    @override
    def __call__(self, student: torch.Tensor, teacher: torch.Tensor) -> Pair:
        leaf = student.detach().requires_grad_()
        with torch.enable_grad():
            loss = _loss(leaf, teacher)
        (dstudent,) = torch.autograd.grad(loss, leaf, torch.ones_like(loss))
        return loss.detach(), dstudent


@dataclass(frozen=True)
class KlCompiled(CompiledFormula):
    """The formula in float32; see `CompiledFormula`."""

    operation = KL_DIV
    formula = staticmethod(_in_float32)


@dataclass(frozen=True)
class KlGradCompiled(CompiledFormula):
    """The formula and its gradient; see `CompiledFormula`."""

    operation = KL_DIV_GRAD
    formula = staticmethod(_with_gradient)


@dataclass(frozen=True)
class KlLiger(Peer):
    """The loss of each row, of the package liger-kernel, and what it takes before."""

    operation = KL_DIV
    library = LIGER
    moves = Traffic(
        reads=2 * M * N,
        writes=sympy.S.Zero,
        read_bytes=8 * M * N,
        write_bytes=8 * M * N + 8 * M,
    )
    on_chip = N

    @override
    def function(
        self, student: torch.Tensor, teacher: torch.Tensor
    ) -> Callable[[torch.Tensor, torch.Tensor], torch.Tensor]:
        from liger_kernel.ops import kl_div as liger

        rows, cols = student.shape
        block = min(liger.MAX_FUSED_SIZE, 1 << (cols - 1).bit_length())
        options = {"BLOCK_SIZE": block, "num_warps": liger.get_num_warps(block), "reduction": 1}

        def call(student: torch.Tensor, teacher: torch.Tensor) -> torch.Tensor:
            logq = F.log_softmax(student, 1, dtype=torch.float32)
            p = torch.softmax(teacher, 1, dtype=torch.float32)
            loss = torch.zeros(rows, device=student.device)
            strides = logq, cols, p, cols, loss, 1, cols
            liger._kldiv_kernel_forward[(rows,)](*strides, eps=1e-10, **options)
            return loss

        return call
