"""Of log-softmax and logsumexp the variant for a shape, which the functions launch.

Passes: one; log-softmax reads rows again that do not fit a cluster's registers.
On chip: the row where it fits, else a tile.
The rule is in `cross_entropy/auto`.
Source: this project.
"""

from __future__ import annotations

from dataclasses import dataclass

import sympy
from typing_extensions import override

from ..cluster.cut import Cut
from ..cross_entropy.auto import WIDEST, Chooses
from ..cross_entropy.rows import NARROW
from ..traffic import M, N, Traffic
from .cluster import LogSoftmaxCluster, LogSumExpCluster
from .online import LogSoftmaxOnline, LogSumExpOnline
from .operation import LOG_SOFTMAX, LOGSUMEXP


@dataclass(frozen=True)
class LogSumExpAuto(Chooses):
    """A number a row; see `Chooses`."""

    operation = LOGSUMEXP
    moves = LogSumExpOnline.moves
    cluster, online = LogSumExpCluster(), LogSumExpOnline()


@dataclass(frozen=True)
class LogSoftmaxAuto(Chooses):
    """The logarithm of the softmax; see `Chooses`. Its traffic is by an H200's clusters."""

    operation = LOG_SOFTMAX
    moves = Traffic(reads=sympy.Piecewise((M * N, N <= WIDEST), (2 * M * N, True)), writes=M * N)
    cluster, online = LogSoftmaxCluster(), LogSoftmaxOnline()

    @override
    def suits(self, cols: int, several: bool, plan: Cut) -> bool:
        return cols > NARROW
