"""Cross-entropy's family by PyTorch: as written by hand, by its own functions, and compiled.

Passes:
- naive, as a reader of source C writes it: softmax (MN, MN), log (MN, MN), the target's (M, M),
  the sign (M, M): 4MN + 4M. It takes a logarithm of what was rounded: in float16 a probability
  below 6e-8 is 0 and the loss infinite.
- torch, `F.cross_entropy`: log_softmax (MN, MN), nll_loss (M, M and a number): 2MN + 2M + 1.
- loss and gradient by torch: that and its backward, which fills a gradient of the log-probabilities
  with zeros (M, MN) and goes through log_softmax (2MN, MN).
- log-probability and entropy by torch: log_softmax, the target's, exp, product, sum, sign.
- compiled: what Inductor makes of the formula, nominally the compulsory traffic. PyTorch has no
  function that takes a gradient from a kept logsumexp; compiled does so.
On chip: one element, or nominally the row.
Source: source C's "Fused Softmax + Cross-Entropy Loss"; `torch.nn.functional.cross_entropy`.
"""

from __future__ import annotations

from dataclasses import dataclass

import sympy
import torch
import torch.nn.functional as F
from typing_extensions import override

from ..compiled import CompiledFormula
from ..kernel import Kernel
from ..traffic import M, N, Traffic
from .operation import (
    CROSS_ENTROPY,
    CROSS_ENTROPY_BACKWARD,
    CROSS_ENTROPY_GRAD,
    LOGPROB_ENTROPY,
)

Pair = tuple[torch.Tensor, torch.Tensor]


@dataclass(frozen=True)
class CeNaive(Kernel):
    """Eager PyTorch, operation by operation. It has no tunables."""

    operation = CROSS_ENTROPY
    backend = "eager"
    moves = Traffic(reads=2 * M * N + 2 * M, writes=2 * M * N + 2 * M, read_bytes=8 * M)
    on_chip = sympy.Integer(1)

    @override
    def __call__(self, logits: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        p = torch.softmax(logits, dim=1)
        return -torch.log(p).gather(1, target[:, None]).squeeze(1)


@dataclass(frozen=True)
class CeTorch(Kernel):
    """`F.cross_entropy` of each row. It has no tunables."""

    operation = CROSS_ENTROPY
    backend = "torch"
    moves = Traffic(reads=M * N + M, writes=M * N + M + 1, read_bytes=8 * M)
    on_chip = N

    @override
    def __call__(self, logits: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(logits, target, reduction="none")


@dataclass(frozen=True)
class CeGradTorch(Kernel):
    """`F.cross_entropy` of each row and its backward pass. It has no tunables."""

    operation = CROSS_ENTROPY_GRAD
    backend = "eager"  # log-probabilities are rounded to the dtype before the gradient is taken
    moves = Traffic(reads=3 * M * N + 2 * M + 1, writes=3 * M * N + 2 * M + 1, read_bytes=16 * M)
    on_chip = N

    @override
    def __call__(self, logits: torch.Tensor, target: torch.Tensor) -> Pair:
        leaf = logits.detach().requires_grad_()
        with torch.enable_grad():
            loss = F.cross_entropy(leaf, target, reduction="none")
        (dlogits,) = torch.autograd.grad(loss, leaf, torch.ones_like(loss))
        return loss.detach(), dlogits


@dataclass(frozen=True)
class LogprobEntropyTorch(Kernel):
    """Eager PyTorch, operation by operation. It has no tunables."""

    operation = LOGPROB_ENTROPY
    backend = "eager"
    moves = Traffic(reads=5 * M * N + 2 * M, writes=3 * M * N + 3 * M, read_bytes=8 * M)
    on_chip = sympy.Integer(1)

    @override
    def __call__(self, logits: torch.Tensor, target: torch.Tensor) -> Pair:
        logp = torch.log_softmax(logits, dim=1)
        return logp.gather(1, target[:, None]).squeeze(1), -(logp.exp() * logp).sum(1)


def _loss(logits: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(logits.float(), target, reduction="none")


def _backward(
    logits: torch.Tensor, target: torch.Tensor, lse: torch.Tensor, dloss: torch.Tensor
) -> torch.Tensor:
    chosen = torch.arange(logits.shape[1], device=logits.device) == target[:, None]
    p = (logits.float() - lse[:, None]).exp()
    return ((p - chosen.float()) * dloss[:, None]).to(logits.dtype)


def _loss_and_gradient(logits: torch.Tensor, target: torch.Tensor) -> Pair:
    lse = logits.float().logsumexp(1)
    loss = lse - logits.gather(1, target[:, None]).squeeze(1)
    return loss, _backward(logits, target, lse, torch.ones_like(lse))


def _logprob_entropy(logits: torch.Tensor, target: torch.Tensor) -> Pair:
    logp = torch.log_softmax(logits.float(), 1)
    return logp.gather(1, target[:, None]).squeeze(1), -(logp.exp() * logp).sum(1)


@dataclass(frozen=True)
class CeCompiled(CompiledFormula):
    """`F.cross_entropy` of each row; see `CompiledFormula`."""

    operation = CROSS_ENTROPY
    formula = staticmethod(_loss)


@dataclass(frozen=True)
class CeBackwardCompiled(CompiledFormula):
    """The gradient of a known logsumexp; see `CompiledFormula`."""

    operation = CROSS_ENTROPY_BACKWARD
    formula = staticmethod(_backward)


@dataclass(frozen=True)
class CeGradCompiled(CompiledFormula):
    """Loss and gradient; see `CompiledFormula`."""

    operation = CROSS_ENTROPY_GRAD
    formula = staticmethod(_loss_and_gradient)


@dataclass(frozen=True)
class LogprobEntropyCompiled(CompiledFormula):
    """Log-probability and entropy; see `CompiledFormula`."""

    operation = LOGPROB_ENTROPY
    formula = staticmethod(_logprob_entropy)
