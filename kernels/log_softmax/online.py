"""log-softmax and logsumexp by the streaming kernels of cross-entropy.

Passes: logsumexp one, MN; log-softmax one, 2MN, where N ≤ 16384, else two, 3MN.
On chip: a tile; of log-softmax a row of up to 16384 elements.
Source: `kernels.cross_entropy.rows`.
"""

from __future__ import annotations

from dataclasses import dataclass

import sympy
from typing_extensions import override

from ..cross_entropy.online import HELD_OR_TILE, Streaming
from ..cross_entropy.rows import HELD, MOVED
from ..traffic import M, N, Traffic
from .operation import LOG_SOFTMAX, LOGSUMEXP


@dataclass(frozen=True)
class LogSumExpOnline(Streaming):
    """The logsumexp of each row; see `Streaming`."""

    operation = LOGSUMEXP
    moves = Traffic(reads=M * N, writes=sympy.S.Zero, write_bytes=4 * M)


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
