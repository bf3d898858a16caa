"""Picks the variant of the cross-entropy family for a shape; the public functions launch it.

Passes: one: MN, or 2MN with a gradient; 3MN if a row does not fit a cluster's registers.
On chip: the row if it fits, else a tile.
The rule, measured on an H200; it does not depend on M:

- Without clusters, or where a row does not fit one: `online`.
- Rows up to `NARROW` elements: `online`, but `cluster` for a gradient, and for whole 16-byte
  vectors without a written matrix.
- The entropy of rows beyond `ENTROPY` elements that need programs of many warps: `online`, because
  its arithmetic takes longest (6 % at 8192×151936).
- All others: `cluster`, which requests the whole row before it waits for anything.
Source: this project.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import sympy
import torch
from typing_extensions import override

from ..cluster.cut import reading
from ..device import Device, device_of
from ..kernel import Shape
from ..traffic import M, N, Traffic
from . import rows
from .cluster import FEWEST_WARPS, CeCluster, has_narrow
from .online import CeOnline
from .operation import CROSS_ENTROPY, CROSS_ENTROPY_GRAD, LOGPROB_ENTROPY
from .rows import NARROW, Call, RowVariant

WIDEST = 1 << 19  # elements of a row on chip; twice as many of 16 bit
ENTROPY = 1 << 17  # elements of a row
CLUSTER, ONLINE = CeCluster(), CeOnline()  # for what all of their kind have in common


def run(call: Call) -> None:
    """Like `rows.run`, by clusters where they are faster; these read ignored rows too."""
    if clustered(call):
        CLUSTER.run(call)
    else:
        rows.run(call)


def clustered(call: Call) -> bool:
    """Whether `run` uses clusters; the answer does not depend on M."""
    x, written, dloss = call.x, call.matrix, call.dloss
    if x.numel() == 0 or call.weight is not None or (dloss is not None and dloss.numel() > 1):
        return False  # streaming alone takes these
    width, shape = reading(x, written)[0], (x.shape[0], x.shape[1])
    results = call.dlogits is not None, call.y is not None, call.entropy is not None
    return _suits(shape, x.dtype, device_of(x), width, has_narrow(x), *results)


@lru_cache(maxsize=4096)
def _suits(
    shape: Shape,
    dtype: torch.dtype,
    device: Device,
    width: int,
    several: bool,
    gradient: bool,
    matrix: bool,
    entropy: bool,
) -> bool:
    """The rule; ``several`` is `has_narrow` of rows that are read by vectors of ``width``."""
    if CLUSTER.unsupported(shape, dtype, device) is not None:
        return False
    plan, cols = CLUSTER.plan(shape, dtype, width, device), shape[1]
    if plan is None or (entropy and cols > ENTROPY and plan.warps > FEWEST_WARPS):
        return False
    return gradient or cols > NARROW or (several and not matrix)


class Chooses(RowVariant):
    """One cluster per row where that is faster, else tiles. It has no tunables."""

    on_chip = sympy.Piecewise((N, N <= WIDEST), (ONLINE.on_chip_elements(), True))

    @override
    def unsupported(self, shape: Shape, dtype: torch.dtype, device: Device) -> str | None:
        reason = super().unsupported(shape, dtype, device)
        if reason is None and CLUSTER.unsupported(shape, dtype, device) is not None:
            return ONLINE.unsupported(shape, dtype, device)
        return reason

    @override
    def run(self, call: Call) -> None:
        run(call)


@dataclass(frozen=True)
class CeAuto(Chooses):
    """The loss, and its logsumexp; see `Chooses`."""

    operation = CROSS_ENTROPY
    moves = CeOnline.moves
    beside = ("lse",)


@dataclass(frozen=True)
class CeGradAuto(Chooses):
    """Loss and gradient; see `Chooses`.

    The traffic assumes an H200, whose clusters hold `WIDEST` float32 elements. They write each
    target's element twice, M more in all.
    """

    operation = CROSS_ENTROPY_GRAD
    moves = Traffic(
        reads=sympy.Piecewise((M * N + M, N <= WIDEST), (2 * M * N + M, True)),
        writes=M * N,
        read_bytes=8 * M,
        write_bytes=4 * M,
    )


@dataclass(frozen=True)
class LogprobEntropyAuto(Chooses):
    """Log-probability and entropy; see `Chooses`."""

    operation = LOGPROB_ENTROPY
    moves = CeOnline.moves
