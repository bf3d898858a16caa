"""Log-softmax and logsumexp of rows; gradients of log-probability and entropy.

The gradient of log p[t] is onehot(t) − p, of the entropy H = −Σ p·log p it is −p·(log p + H).
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from typing_extensions import override

from ..cross_entropy.operation import LOGPROB_ENTROPY, CrossEntropyBackward, LogprobEntropy
from ..kernel import ANY, Array, Operation, Shape
from ..traffic import M


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
        entropy = torch.empty_like(lse)
        for part in (slice(first, first + step) for first in range(0, len(lse), step)):
            entropy[part] = LOGPROB_ENTROPY.reference(logits[part], target[part])[1]
        generator = torch.Generator(device).manual_seed(seed + 2)
        dentropy = torch.randn(len(lse), device=device, generator=generator)
        return logits, target, lse, dlogprob, entropy, dentropy

    @override
    def reference(self, logits: torch.Tensor, target: torch.Tensor, *rows: Any) -> torch.Tensor:
        return _gradient(False, logits.double(), target, *(each.double() for each in rows))

    @override
    def magnitude(self, logits: torch.Tensor, target: torch.Tensor, *rows: Any) -> torch.Tensor:
        return _gradient(True, logits.double(), target, *(each.double() for each in rows))


class LogprobEntropyGrad(LogprobEntropy):
    """Both numbers of each row, and the gradient of the sum of all of them, in one call."""

    name = "logprob_entropy_grad"
    outputs = (*LogprobEntropy.outputs, Array("dlogits"))  # type: ignore[assignment]
    row_sums: ClassVar = {"dlogits": 0.0}
    roof = "copy"

    @override
    def reference(self, logits: torch.Tensor, target: torch.Tensor) -> Any:
        rows = super().reference(logits, target)
        return *rows, self._gradient(False, logits.double(), target, rows[1])

    @override
    def magnitude(self, logits: torch.Tensor, target: torch.Tensor) -> Any:
        entropy = super().reference(logits, target)[1]
        gradient = self._gradient(True, logits.double(), target, entropy)
        return *super().magnitude(logits, target), gradient

    def _gradient(self, size: bool, logits: torch.Tensor, target: Any, entropy: Any) -> Any:
        ones = torch.ones_like(entropy)
        return _gradient(size, logits, target, logits.logsumexp(-1), ones, entropy, ones)


def _gradient(
    size: bool,
    logits: torch.Tensor,
    target: torch.Tensor,
    lse: torch.Tensor,
    dlogprob: torch.Tensor,
    entropy: torch.Tensor,
    dentropy: torch.Tensor,
) -> torch.Tensor:
    """The gradient of the logits, or the magnitude of the terms that add up to it."""
    p, sign, each = (logits - lse[:, None]).exp(), -1, logits + (entropy - lse)[:, None]
    if size:
        dlogprob, dentropy, sign = dlogprob.abs(), dentropy.abs(), 1
        each = logits.abs() + (lse.abs() + entropy.abs())[:, None]
    each = torch.where(p > 0, each, 0.0)  # a logit of −inf adds nothing
    dlogits = sign * p * (dlogprob[:, None] + dentropy[:, None] * each)
    return dlogits.scatter_add_(-1, target[:, None], dlogprob[:, None])


LOG_SOFTMAX, LOGSUMEXP = LogSoftmax(), LogSumExp()
LOGPROB_ENTROPY_BACKWARD = LogprobEntropyBackward()
LOGPROB_ENTROPY_GRAD = LogprobEntropyGrad()
