"""Log-softmax along the last dimension of an M×N matrix, and its logsumexp."""

from __future__ import annotations

from typing import ClassVar

import torch
from typing_extensions import override

from ..kernel import ANY, Array, Operation
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


LOG_SOFTMAX, LOGSUMEXP = LogSoftmax(), LogSumExp()
