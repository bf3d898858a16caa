"""Cross-entropy from M×N logits and M targets, log-softmax, logsumexp, and their gradients.

The gradient of log p[t] is onehot(t) − p, of the entropy H = −Σ p·log p it is −p·(log p + H).
"""

from __future__ import annotations

from typing import Any, ClassVar

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
    outputs: ClassVar[tuple[Array, ...]] = (LOSS,)
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
        parts = logits.split(max(1, (1 << 26) // max(shape[1], 1)))
        lse = torch.cat([part.float().logsumexp(-1) for part in parts])
        generator = torch.Generator(device).manual_seed(seed + 1)
        dloss = torch.randn(shape[0], dtype=torch.float32, device=device, generator=generator)
        return logits, target, lse, dloss

    @override
    def reference(
        self, logits: torch.Tensor, target: torch.Tensor, lse: torch.Tensor, dloss: torch.Tensor
    ) -> torch.Tensor:
        return _gradient(logits.double(), target, lse.double()) * dloss.double()[:, None]


class CrossEntropyGrad(CrossEntropy):
    """The loss of each row, and the gradient of their sum, p − onehot, in one call."""

    name = "cross_entropy_grad"
    logits: ClassVar = {"logits": ANY}
    outputs = (LOSS, Array("dlogits"))
    row_sums: ClassVar = {"dlogits": 0.0}
    roof = "copy"

    @override
    def reference(self, logits: torch.Tensor, target: torch.Tensor) -> Any:
        logits = logits.double()
        gradient = _gradient(logits, target, logits.logsumexp(-1))
        return super().reference(logits, target), gradient

    @override
    def magnitude(self, logits: torch.Tensor, target: torch.Tensor) -> Any:
        """See `Operation`: for the loss as in `CrossEntropy`; the gradient's own size."""
        return super().magnitude(logits, target), self.reference(logits, target)[1]


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


class LogSoftmax(Operation):
    """y = x − logsumexp(x), row by row."""

    name = "log_softmax"
    logits: ClassVar = {"x": ANY}

    @override
    def reference(self, x: torch.Tensor) -> torch.Tensor:
        return torch.log_softmax(x.double(), dim=-1)

    @override
    def magnitude(self, x: torch.Tensor) -> torch.Tensor:
        """See `Operation`: |x| + |logsumexp(x)|."""
        x = x.double()
        return x.abs() + x.logsumexp(-1, keepdim=True).abs()


class LogSumExp(Operation):
    """log Σ exp(x) of each row."""

    name = "logsumexp"
    logits: ClassVar = {"x": ANY}
    outputs = (Array("lse", (M,), torch.float32, either=True),)
    roof = "read"

    @override
    def reference(self, x: torch.Tensor) -> torch.Tensor:
        return x.double().logsumexp(-1)


class LogprobEntropyBackward(CrossEntropyBackward):
    """dlogits from a row's logsumexp and entropy, and the gradients of both answers."""

    name = "logprob_entropy_backward"
    inputs = (  # type: ignore[assignment]
        *CrossEntropyBackward.inputs[:3],
        *(Array(name, (M,), torch.float32) for name in ("dlogprob", "entropy", "dentropy")),
    )

    @override
    def make_inputs(
        self, shape: Shape, dtype: torch.dtype, device: torch.device | str, seed: int
    ) -> tuple[torch.Tensor, ...]:
        """The inputs of the answers, both numbers of their rows, and standard normal gradients."""
        logits, target, lse, dlogprob = super().make_inputs(shape, dtype, device, seed)
        step = max(1, (1 << 24) // max(shape[1], 1))
        parts = zip(logits.split(step), target.split(step), strict=True)
        entropy = torch.cat([LOGPROB_ENTROPY.reference(*part)[1] for part in parts]).float()
        generator = torch.Generator(device).manual_seed(seed + 2)
        dentropy = torch.randn(len(lse), device=device, generator=generator)
        return logits, target, lse, dlogprob, entropy, dentropy

    @override
    def reference(self, logits: torch.Tensor, target: torch.Tensor, *rows: Any) -> torch.Tensor:
        return _gradient_of_numbers(False, logits, target, *rows)

    @override
    def magnitude(self, logits: torch.Tensor, target: torch.Tensor, *rows: Any) -> torch.Tensor:
        return _gradient_of_numbers(True, logits, target, *rows)


class LogprobEntropyGrad(LogprobEntropy):
    """Both numbers of each row, and the gradient of the sum of all of them, in one call."""

    name = "logprob_entropy_grad"
    outputs = (*LogprobEntropy.outputs, Array("dlogits"))  # type: ignore[assignment]
    row_sums: ClassVar = {"dlogits": 0.0}
    roof = "copy"

    @override
    def reference(self, logits: torch.Tensor, target: torch.Tensor) -> Any:
        rows = super().reference(logits, target)
        return *rows, self._gradient(False, logits, target, rows[1])

    @override
    def magnitude(self, logits: torch.Tensor, target: torch.Tensor) -> Any:
        entropy = super().reference(logits, target)[1]
        gradient = self._gradient(True, logits, target, entropy)
        return *super().magnitude(logits, target), gradient

    def _gradient(self, size: bool, logits: torch.Tensor, target: Any, entropy: Any) -> Any:
        lse, ones = logits.double().logsumexp(-1), torch.ones_like(entropy)
        return _gradient_of_numbers(size, logits, target, lse, ones, entropy, ones)


def _gradient_of_numbers(
    size: bool, logits: torch.Tensor, target: torch.Tensor, *rows: torch.Tensor
) -> torch.Tensor:
    """The gradient of the logits, or the magnitude of the terms that add up to it."""
    logits, lse, dlogprob, entropy, dentropy = (each.double() for each in (logits, *rows))
    p, sign, each = (logits - lse[:, None]).exp(), -1, logits + (entropy - lse)[:, None]
    if size:
        dlogprob, dentropy, sign = dlogprob.abs(), dentropy.abs(), 1
        each = logits.abs() + (lse.abs() + entropy.abs())[:, None]
    each = torch.where(p > 0, each, 0.0)  # a logit of −inf adds nothing
    dlogits = sign * p * (dlogprob[:, None] + dentropy[:, None] * each)
    return dlogits.scatter_add_(-1, target[:, None], dlogprob[:, None])


CROSS_ENTROPY, CROSS_ENTROPY_BACKWARD = CrossEntropy(), CrossEntropyBackward()
CROSS_ENTROPY_GRAD, LOGPROB_ENTROPY = CrossEntropyGrad(), LogprobEntropy()
LOG_SOFTMAX, LOGSUMEXP = LogSoftmax(), LogSumExp()
LOGPROB_ENTROPY_BACKWARD = LogprobEntropyBackward()
LOGPROB_ENTROPY_GRAD = LogprobEntropyGrad()
