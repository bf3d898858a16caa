"""log-softmax and logsumexp by PyTorch: its own functions, and compiled.

Passes: nominally the compulsory ones, 2MN and MN + M. `torch.logsumexp` is one function of five
operations, each a pass of its own. Hardware counters show their traffic.
On chip: nominally the row, N elements.
Source: `torch.log_softmax`, `torch.logsumexp`.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from typing_extensions import override

from ..compiled import CompiledFormula
from ..kernel import Kernel
from ..traffic import M, N, Traffic
from .operation import LOG_SOFTMAX, LOGSUMEXP


@dataclass(frozen=True)
class LogSoftmaxTorch(Kernel):
    """`torch.log_softmax` along the rows. It has no tunables."""

    operation = LOG_SOFTMAX
    backend = "torch"
    moves = Traffic(reads=M * N, writes=M * N)
    on_chip = N

    @override
    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return torch.log_softmax(x, dim=1).contiguous()


@dataclass(frozen=True)
class LogSumExpTorch(Kernel):
    """`torch.logsumexp` along the rows. It has no tunables."""

    operation = LOGSUMEXP
    backend = "torch"
    moves = Traffic(reads=M * N, writes=M)
    on_chip = N

    @override
    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return torch.logsumexp(x, dim=1)


def _log_softmax(x: torch.Tensor) -> torch.Tensor:
    return torch.log_softmax(x, 1)


def _logsumexp(x: torch.Tensor) -> torch.Tensor:
    return x.float().logsumexp(1)


@dataclass(frozen=True)
class LogSoftmaxCompiled(CompiledFormula):
    """`torch.log_softmax`; see `CompiledFormula`."""

    operation = LOG_SOFTMAX
    formula = staticmethod(_log_softmax)


@dataclass(frozen=True)
class LogSumExpCompiled(CompiledFormula):
    """`torch.logsumexp`; see `CompiledFormula`."""

    operation = LOGSUMEXP
    formula = staticmethod(_logsumexp)
