"""The divergence by PyTorch's formula, eager and compiled, and by Liger-Kernel.

Passes, of PyTorch: two log-softmax, then exp, difference, product and sum of `F.kl_div`. Liger's
kernels take log-softmax or softmax of both, which PyTorch makes first, in float32: of 16 bit the
loss would have two digits. Its Jensen-Shannon loss with β = 0 is the divergence. It also writes the
gradient of the log-softmax over a copy of it, and a loss for each element, which PyTorch adds.
On chip: nominally a row.
Source: `torch.nn.functional.kl_div`; `liger_kernel/ops/kl_div.py` and `jsd.py` of the package
liger-kernel.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import sympy
import torch
import torch.nn.functional as F
from typing_extensions import override

from ..compiled import CompiledFormula
from ..kernel import Kernel, Operation, Tensors, with_gradient
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


class KlTorch(Kernel):
    """`F.kl_div` of two log-softmax, summed over each row. It has no tunables."""

    operation: ClassVar[Operation] = KL_DIV
    backend = "eager"
    moves = Traffic(reads=8 * M * N, writes=5 * M * N + M)
    on_chip = N

    @override
    def __call__(self, student: torch.Tensor, teacher: torch.Tensor) -> Tensors:
        return _loss(student, teacher)


class KlGradTorch(KlTorch):
    """The same, and its backward pass."""

    operation = KL_DIV_GRAD
    moves = Traffic(reads=12 * M * N + M, writes=8 * M * N + 2 * M)

    @override
    def __call__(self, student: torch.Tensor, teacher: torch.Tensor) -> Tensors:
        return with_gradient(_loss, student, teacher)


class KlCompiled(CompiledFormula):
    """The formula in float32; see `CompiledFormula`."""

    operation = KL_DIV
    formula = staticmethod(_in_float32)


class KlGradCompiled(CompiledFormula):
    """The formula and its gradient; see `CompiledFormula`."""

    operation = KL_DIV_GRAD
    formula = staticmethod(_with_gradient)


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


class KlJsdLiger(Peer):
    """Liger's Jensen-Shannon loss with β = 0, and what it takes before and after."""

    operation: ClassVar[Operation] = KL_DIV
    library = LIGER
    moves = Traffic(
        reads=2 * M * N, writes=sympy.S.Zero, read_bytes=16 * M * N, write_bytes=24 * M * N + 4 * M
    )
    on_chip = N

    @override
    def function(self, *inputs: torch.Tensor) -> Callable[..., Any]:
        return lambda student, teacher: _jsd(student, teacher)[0]


class KlGradJsdLiger(KlJsdLiger):
    """The same, and its gradient through log-softmax."""

    operation = KL_DIV_GRAD
    moves = Traffic(
        reads=2 * M * N,
        writes=M * N,
        read_bytes=28 * M * N,
        write_bytes=28 * M * N + 4 * M,
    )

    @override
    def function(self, *inputs: torch.Tensor) -> Callable[..., Any]:
        def call(student: torch.Tensor, teacher: torch.Tensor) -> Pair:
            loss, slope, logq = _jsd(student, teacher)
            gradient = torch._log_softmax_backward_data(slope, logq, 1, torch.float32)
            return loss, gradient.to(student.dtype)

        return call


def _jsd(student: torch.Tensor, teacher: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """The losses, their gradient by the student's log-softmax, and this itself."""
    import liger_kernel.functional  # noqa: F401, where the dispatcher finds its kernels
    from liger_kernel.backends import dispatch

    logq, logp = (F.log_softmax(x, 1, dtype=torch.float32) for x in (student, teacher))
    given = logq.clone(), logp, None, 0.0, -100, 1.0  # no labels, β, their number, rows
    losses, slope = dispatch("jsd_loss_and_grad", *given, impl=None, mode=None)
    return losses.sum(1), slope, logq
