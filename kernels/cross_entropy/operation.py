"""Cross-entropy from M×N logits and M targets, forward, backward, and both in one call."""

from __future__ import annotations

from typing import ClassVar

import torch
from typing_extensions import override

from ..kernel import ANY, SHIFTED, Array, Operation, Shape
from ..traffic import M

LOGITS, TARGET = Array("logits"), Array("target", (M,), torch.int64)
LOSS = Array("loss", (M,), torch.float32, either=True)
Rows = tuple[torch.Tensor, torch.Tensor]  # two numbers of each row


class _OfTargets(Operation):
    """An operation with one target per row: standard normal logits, targets uniform over N."""

    @override
    def make_inputs(
        self, shape: Shape, dtype: torch.dtype, device: torch.device | str, seed: int
    ) -> tuple[torch.Tensor, ...]:
        generator = torch.Generator(device).manual_seed(seed)
        logits = torch.randn(shape, dtype=dtype, device=device, generator=generator)
        rows, cols = shape
        target = torch.randint(max(cols, 1), (rows,), device=device, generator=generator)
        return logits, target


def _chosen(logits: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """The logit of each row's target."""
    return logits.gather(-1, target[:, None]).squeeze(-1)


def _gradient(logits: torch.Tensor, target: torch.Tensor, lse: torch.Tensor) -> torch.Tensor:
    """p − onehot, where ``lse`` is the logarithm of the sum of each row's exponentials."""
    p = (logits - lse[:, None]).exp_()
    return p.scatter_add_(-1, target[:, None], p.new_full((len(p), 1), -1.0))


class CrossEntropy(_OfTargets):
    """loss = logsumexp(logits) − logits[target], a number for each row."""

    name = "cross_entropy"
    logits: ClassVar = {"logits": SHIFTED}
    inputs = (LOGITS, TARGET)
    outputs = (LOSS,)
    roof = "read"

    @override
    def reference(self, logits: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        logits = logits.double()
        return logits.logsumexp(-1) - _chosen(logits, target)

    @override
    def magnitude(self, logits: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        """See `Operation`: |logsumexp| + |logits[target]|."""
        logits = logits.double()
        return logits.logsumexp(-1).abs() + _chosen(logits, target).abs()


class CrossEntropyBackward(_OfTargets):
    """dlogits = (exp(logits − lse) − onehot(target))·dloss, from a row's lse and its dloss."""

    name = "cross_entropy_backward"
    inputs = (
        *(LOGITS, TARGET),
        *(Array("lse", (M,), torch.float32), Array("dloss", (M,), torch.float32)),
    )
    outputs = (Array("dlogits"),)
    row_sums: ClassVar = {"dlogits": None}

    @override
    def make_inputs(
        self, shape: Shape, dtype: torch.dtype, device: torch.device | str, seed: int
    ) -> tuple[torch.Tensor, ...]:
        """The inputs of the loss, its logsumexp, and standard normal gradients of the loss."""
        logits, target = super().make_inputs(shape, dtype, device, seed)
        # by a few rows at a time, so that no float32 copy of the logits is made
        step = max(1, (1 << 26) // max(shape[1], 1))
        lse = torch.empty(shape[0], dtype=torch.float32, device=device)
        for first in range(0, shape[0], step):
            lse[first : first + step] = logits[first : first + step].float().logsumexp(-1)
        generator = torch.Generator(device).manual_seed(seed + 1)
        dloss = torch.randn(shape[0], dtype=torch.float32, device=device, generator=generator)
        return logits, target, lse, dloss

    @override
    def reference(
        self, logits: torch.Tensor, target: torch.Tensor, lse: torch.Tensor, dloss: torch.Tensor
    ) -> torch.Tensor:
        return _gradient(logits.double(), target, lse.double()) * dloss.double()[:, None]


class CrossEntropyGrad(_OfTargets):
    """The loss of each row, and the gradient of their sum, p − onehot, in one call."""

    name = "cross_entropy_grad"
    logits: ClassVar = {"logits": ANY}
    inputs = (LOGITS, TARGET)
    outputs = (LOSS, Array("dlogits"))
    row_sums: ClassVar = {"dlogits": 0.0}

    @override
    def reference(self, logits: torch.Tensor, target: torch.Tensor) -> Rows:
        logits = logits.double()
        lse = logits.logsumexp(-1)
        return lse - _chosen(logits, target), _gradient(logits, target, lse)

    @override
    def magnitude(self, logits: torch.Tensor, target: torch.Tensor) -> Rows:
        """See `Operation`: for the loss as in `CrossEntropy`; the gradient's own size."""
        logits = logits.double()
        lse = logits.logsumexp(-1)
        return lse.abs() + _chosen(logits, target).abs(), _gradient(logits, target, lse)


class LogprobEntropy(_OfTargets):
    """log p[target] and the entropy −Σ p·log p of each row, which policy gradients need."""

    name = "logprob_entropy"
    logits: ClassVar = {"logits": ANY[:-1]}
    inputs = (LOGITS, TARGET)
    outputs = (
        Array("logprob", (M,), torch.float32, either=True),
        Array("entropy", (M,), torch.float32, either=True),
    )
    roof = "read"

    @override
    def reference(self, logits: torch.Tensor, target: torch.Tensor) -> Rows:
        logits = logits.double()
        lse = logits.logsumexp(-1)
        p = (logits - lse[:, None]).exp_()
        mean = torch.where(p > 0, p * logits, 0.0).sum(-1)  # a logit of −inf adds nothing
        return _chosen(logits, target) - lse, lse - mean

    @override
    def magnitude(self, logits: torch.Tensor, target: torch.Tensor) -> Rows:
        """See `Operation`: the sums of the magnitudes of the terms."""
        logits = logits.double()
        lse = logits.logsumexp(-1)
        p = (logits - lse[:, None]).exp_()
        mean = torch.where(p > 0, p * logits.abs(), 0.0).sum(-1)
        return _chosen(logits, target).abs() + lse.abs(), lse.abs() + mean


CROSS_ENTROPY, CROSS_ENTROPY_BACKWARD = CrossEntropy(), CrossEntropyBackward()
CROSS_ENTROPY_GRAD, LOGPROB_ENTROPY = CrossEntropyGrad(), LogprobEntropy()
