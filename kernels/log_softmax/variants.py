"""Log-softmax and logsumexp of each row: by the kernels of cross-entropy, by PyTorch, compiled.

Passes:
- logsumexp: one, MN.
- log-softmax by a cluster that keeps the row on chip (Gluon, sm_90 and up): one, 2MN.
- log-softmax by tiles: one, 2MN, where N ≤ 16384, else two, 3MN.
- auto is the cluster where it is faster, else tiles; the rule is in `cross_entropy/auto`.
- PyTorch and Inductor: nominally the compulsory ones. `torch.logsumexp` is one function of five
  operations, each a pass of its own. Hardware counters show their traffic.
On chip: the row of a cluster; a tile, or of log-softmax a row of up to 16384 elements.
Source: `kernels.cross_entropy.cluster`, `kernels.cross_entropy.rows`; `torch.log_softmax`,
`torch.logsumexp`.
"""

from __future__ import annotations

from dataclasses import dataclass

import sympy
import torch
from typing_extensions import override

from ..compiled import CompiledFormula
from ..cross_entropy.auto import WIDEST, Chooses
from ..cross_entropy.cluster import RowCluster
from ..cross_entropy.online import HELD_OR_TILE, Streaming
from ..cross_entropy.rows import HELD, MOVED
from ..kernel import TorchFunction
from ..traffic import M, N, Traffic
from .operation import LOG_SOFTMAX, LOGSUMEXP

MATRIX = Traffic(reads=M * N, writes=M * N)
NUMBERS = Traffic(reads=M * N, writes=sympy.S.Zero, write_bytes=4 * M)


@dataclass(frozen=True)
class LogSumExpOnline(Streaming):
    """The logsumexp of each row; see `Streaming`."""

    operation = LOGSUMEXP
    moves = NUMBERS


@dataclass(frozen=True)
class LogSoftmaxOnline(Streaming):
    """Log-softmax of each row; see `Streaming`."""

    operation = LOG_SOFTMAX

    @override
    def traffic(self) -> Traffic:
        """See `Kernel`; of a wide row a program that writes reads the row's m and sum."""
        held, parts = N <= HELD, M * sympy.ceiling(N / sympy.Integer(self.block_size or MOVED))
        return Traffic(
            reads=sympy.Piecewise((M * N, held), (2 * M * N, True)),
            writes=M * N,
            read_bytes=sympy.Piecewise((0, held), (8 * parts, True)),
            write_bytes=sympy.Piecewise((0, held), (8 * M, True)),
        )

    @override
    def on_chip_elements(self) -> sympy.Expr:
        return HELD_OR_TILE


@dataclass(frozen=True)
class LogSumExpCluster(RowCluster):
    """The logsumexp of each row; see `RowCluster`."""

    operation = LOGSUMEXP
    moves = NUMBERS


@dataclass(frozen=True)
class LogSoftmaxCluster(RowCluster):
    """Log-softmax of each row; see `RowCluster`."""

    operation = LOG_SOFTMAX
    moves = MATRIX


@dataclass(frozen=True)
class LogSumExpAuto(Chooses):
    """The logsumexp of each row; see `Chooses`."""

    operation = LOGSUMEXP
    moves = NUMBERS
    cluster, online = LogSumExpCluster(), LogSumExpOnline()


@dataclass(frozen=True)
class LogSoftmaxAuto(Chooses):
    """Log-softmax of each row; see `Chooses`. Its traffic is by an H200's clusters."""

    operation = LOG_SOFTMAX
    moves = Traffic(reads=sympy.Piecewise((M * N, N <= WIDEST), (2 * M * N, True)), writes=M * N)
    rule = "matrix"
    cluster, online = LogSoftmaxCluster(), LogSoftmaxOnline()


class LogSoftmaxTorch(TorchFunction):
    """`torch.log_softmax` along the rows."""

    operation = LOG_SOFTMAX
    moves = MATRIX
    on_chip = N
    function = staticmethod(lambda x: torch.log_softmax(x, dim=1))


class LogSumExpTorch(TorchFunction):
    """`torch.logsumexp` along the rows."""

    operation = LOGSUMEXP
    moves = Traffic(reads=M * N, writes=M)
    on_chip = N
    function = staticmethod(lambda x: torch.logsumexp(x, dim=1))


@dataclass(frozen=True)
class LogSoftmaxCompiled(CompiledFormula):
    """`torch.log_softmax`; see `CompiledFormula`."""

    operation = LOG_SOFTMAX
    formula = staticmethod(lambda x: torch.log_softmax(x, 1))


@dataclass(frozen=True)
class LogSumExpCompiled(CompiledFormula):
    """`torch.logsumexp`; see `CompiledFormula`."""

    operation = LOGSUMEXP
    formula = staticmethod(lambda x: x.float().logsumexp(1))
