"""The cross-entropy family by streaming kernels: any M, any N, unaligned rows.

Passes: the loss, and log-probability with entropy, take one: MN, plus the target's logit of each
row again. The loss also writes the row's logsumexp for a gradient. The gradient from a known
logsumexp takes one: 2MN. Loss and gradient in one call: 2MN if N ≤ 16384, else 3MN in two launches.
The in-place variants write the gradient over the logits.
On chip: a tile; for loss and gradient in one call a row of up to 16384 elements.
With few rows several programs share a row. Each writes 8 bytes per chunk, which are read again; the
formulas leave out these at most 16 chunks per row.
Source: `rows`, which describes the algorithm.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import sympy
import torch
from typing_extensions import override

from ..device import Device
from ..kernel import Shape, power_of_two
from ..language import MOST_PROGRAMS
from ..traffic import M, N, Traffic
from .operation import (
    CROSS_ENTROPY,
    CROSS_ENTROPY_BACKWARD,
    CROSS_ENTROPY_GRAD,
    LOGPROB_ENTROPY,
)
from .rows import A_LANE, HELD, MOVED, Call, RowVariant, backward, run

HELD_OR_TILE = sympy.Piecewise((N, N <= HELD), (sympy.Integer(32 * 4 * A_LANE), True))


@dataclass(frozen=True)
class Streaming(RowVariant):
    """A program takes one row, or a few narrow rows, tile by tile.

    Attributes:
        block_size: Elements of a tile, for rows wider than 2048; None takes 32 per thread.
        num_warps: Warps per program; None decides by the width.
    """

    block_size: Annotated[int | None, power_of_two(1, 1 << 16)] = None
    num_warps: Annotated[int | None, power_of_two(1, 32)] = None

    @override
    def run(self, call: Call) -> None:
        run(call._replace(block_size=self.block_size, num_warps=self.num_warps))

    @override
    def unsupported(self, shape: Shape, dtype: torch.dtype, device: Device) -> str | None:
        reason = super().unsupported(shape, dtype, device)
        programs = shape[0] * -(-shape[1] // (self.block_size or MOVED))
        if reason is None and programs > MOST_PROGRAMS:
            return f"starts up to a program a tile, and a launch takes {MOST_PROGRAMS}"
        return reason

    @override
    def on_chip_elements(self) -> sympy.Expr:
        return sympy.Integer(self.block_size or 32 * (self.num_warps or 4) * A_LANE)


@dataclass(frozen=True)
class CeOnline(Streaming):
    """The loss of each row, and its logsumexp; see `Streaming`."""

    operation = CROSS_ENTROPY
    moves = Traffic(reads=M * N + M, writes=sympy.S.Zero, read_bytes=8 * M, write_bytes=8 * M)
    beside = ("lse",)


@dataclass(frozen=True)
class CeBackward(Streaming):
    """The gradient of a known logsumexp; `block_size` None takes 2048; see `Streaming`."""

    operation = CROSS_ENTROPY_BACKWARD

    @override
    def run(self, call: Call) -> None:
        backward(call._replace(block_size=self.block_size, num_warps=self.num_warps))

    @override
    def traffic(self) -> Traffic:
        """See `Kernel`; a program reads its row's target, lse and dloss."""
        of_row = 16 * M * sympy.ceiling(N / sympy.Integer(self.block_size or MOVED))
        return Traffic(reads=M * N, writes=M * N, read_bytes=of_row)

    @override
    def on_chip_elements(self) -> sympy.Expr:
        return sympy.Integer(self.block_size or MOVED)


@dataclass(frozen=True)
class CeBackwardInPlace(CeBackward):
    """The same over the logits."""

    overwrites = "logits"


@dataclass(frozen=True)
class CeGradOnline(Streaming):
    """Loss, logsumexp and gradient in one call; see `Streaming`."""

    operation = CROSS_ENTROPY_GRAD
    beside = ("lse",)

    @override
    def traffic(self) -> Traffic:
        """See `Kernel`; for a wide row each writing program reads the target, m and the sum."""
        held, parts = N <= HELD, M * sympy.ceiling(N / sympy.Integer(self.block_size or MOVED))
        return Traffic(
            reads=sympy.Piecewise((M * N + M, held), (2 * M * N + M, True)),
            writes=M * N,
            read_bytes=8 * M + sympy.Piecewise((0, held), (16 * parts, True)),
            write_bytes=sympy.Piecewise((8 * M, held), (16 * M, True)),
        )

    @override
    def on_chip_elements(self) -> sympy.Expr:
        return HELD_OR_TILE


@dataclass(frozen=True)
class CeGradInPlace(CeGradOnline):
    """The same, the gradient over the logits."""

    overwrites = "logits"


@dataclass(frozen=True)
class LogprobEntropyOnline(Streaming):
    """log p[target] and the entropy of each row; see `Streaming`."""

    operation = LOGPROB_ENTROPY
    moves = CeOnline.moves
