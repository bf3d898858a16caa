"""The divergence by PyTorch's formula, eager and compiled, and by Liger-Kernel.

Passes, of PyTorch: two log-softmax, then exp, difference, product and sum of `F.kl_div`; compiled
in float32. Liger's kernels take log-softmax or softmax of both, which PyTorch makes first, in
float32: of 16 bit the loss would have two digits. Its Jensen-Shannon loss with β = 0 is the
divergence. It also writes the gradient of the log-softmax over a copy of it, and a loss for each
element, which PyTorch adds.
On chip: nominally a row.
Source: `torch.nn.functional.kl_div`; `liger_kernel/ops/kl_div.py` and `jsd.py` of the package
liger-kernel.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from typing_extensions import override

from ..compiled import CompiledFormula
from ..kernel import Tensors, TorchFunction, variant, with_gradient
from ..peer import LIGER, Peer
from ..traffic import M, N, Traffic
from .operation import KL_DIV, KL_DIV_GRAD


def _loss(student: torch.Tensor, teacher: torch.Tensor) -> torch.Tensor:
    logq, logp = F.log_softmax(student, 1), F.log_softmax(teacher, 1)
    return F.kl_div(logq, logp, reduction="none", log_target=True).sum(1)


def _in_float32(student: torch.Tensor, teacher: torch.Tensor) -> torch.Tensor:
    return _loss(student.float(), teacher.float())


def _with_gradient(student: torch.Tensor, teacher: torch.Tensor) -> Tensors:
    logq, logp = F.log_softmax(student.float(), 1), F.log_softmax(teacher.float(), 1)
    p = logp.exp()
    return (p * (logp - logq)).sum(1), (logq.exp() - p).to(student.dtype)


KlCompiled = variant(CompiledFormula, KL_DIV, formula=_in_float32)
KlGradCompiled = variant(CompiledFormula, KL_DIV_GRAD, formula=_with_gradient)


KlTorch = variant(
    TorchFunction,
    KL_DIV,
    function=_loss,
    backend="eager",
    moves=Traffic(reads=8 * M * N, writes=5 * M * N + M),
    on_chip=N,
)
KlGradTorch = variant(
    KlTorch,
    KL_DIV_GRAD,
    function=partial(with_gradient, _loss),
    moves=Traffic(reads=12 * M * N + M, writes=8 * M * N + 2 * M),
)


class KlLiger(Peer):
    """The loss of each row, of the package liger-kernel, and what it takes before."""

    operation = KL_DIV
    library = LIGER
    moves = Traffic(reads=2 * M * N, read_bytes=8 * M * N, write_bytes=8 * M * N + 8 * M)
    on_chip = N

    @override
    def function(self, student: torch.Tensor, teacher: torch.Tensor) -> Callable[..., Any]:
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


def _jsd(gradient: bool, function: Callable[..., Any], *inputs: torch.Tensor) -> Tensors:
    """The loss of each row, and its gradient through log-softmax."""
    import liger_kernel.functional  # noqa: F401, where the dispatcher finds its kernels

    logq, logp = (F.log_softmax(x, 1, dtype=torch.float32) for x in inputs)
    given = logq.clone(), logp, None, 0.0, -100, 1.0  # no labels, β, their number, rows
    losses, slope = function("jsd_loss_and_grad", *given, impl=None, mode=None)
    loss: torch.Tensor = losses.sum(1)
    if not gradient:
        return loss
    through = torch._log_softmax_backward_data(slope, logq, 1, torch.float32)
    return loss, through.to(inputs[0].dtype)


KlJsdLiger = variant(  # Liger's Jensen-Shannon loss with β = 0, and what it takes before and after
    Peer,
    KL_DIV,
    library=LIGER,
    published="liger_kernel.backends:dispatch",
    called=partial(_jsd, False),
    moves=Traffic(reads=2 * M * N, read_bytes=16 * M * N, write_bytes=24 * M * N + 4 * M),
    on_chip=N,
)
KlGradJsdLiger = variant(
    KlJsdLiger,
    KL_DIV_GRAD,
    called=partial(_jsd, True),
    moves=Traffic(2 * M * N, M * N, read_bytes=28 * M * N, write_bytes=28 * M * N + 4 * M),
)
