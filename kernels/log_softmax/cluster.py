"""Log-softmax and logsumexp, a row for a cluster that keeps it on chip: Gluon, sm_90 and up.

Passes: one; reads MN, and the log-softmax writes MN. The kernel is in `cross_entropy/cluster`.
On chip: the row.
Source: this project, as there.
"""

from __future__ import annotations

from dataclasses import dataclass

import sympy

from ..cross_entropy.cluster import RowCluster
from ..traffic import M, N, Traffic
from .operation import LOG_SOFTMAX, LOGSUMEXP


@dataclass(frozen=True)
class LogSoftmaxCluster(RowCluster):
    """The logarithm of the softmax."""

    operation = LOG_SOFTMAX
    moves = Traffic(reads=M * N, writes=M * N)


@dataclass(frozen=True)
class LogSumExpCluster(RowCluster):
    """A number a row."""

    operation = LOGSUMEXP
    moves = Traffic(reads=M * N, writes=sympy.S.Zero, write_bytes=4 * M)
