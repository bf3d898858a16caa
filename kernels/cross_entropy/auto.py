"""Of cross-entropy's family the variant for a shape, which the functions launch.

Passes: one: MN, or 2MN with a gradient; 3MN where a row does not fit a cluster's registers.
On chip: the row where it fits, else a tile.
The rule, measured on an H200: a cluster keeps the row (`cluster`) where there are clusters and the
row fits, so that all of it is asked for before anything waits. Rows of up to `NARROW` elements are
`online`'s, but for the gradient, and where nothing as wide is written and they are whole vectors;
and so are for the entropy, whose arithmetic takes longest, rows of more than `ENTROPY` elements
that take programs of many warps: 6 % at 8192×151936. Which kernel runs does not depend on M.
Source: this project.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import sympy
import torch
from typing_extensions import override

from ..device import Device, device_of
from ..kernel import Kernel, Shape
from ..softmax.cluster import Cut
from ..softmax.tiles import LONGEST
from ..traffic import M, N, Traffic
from . import cluster, rows
from .cluster import (
    FEWEST_WARPS,
    CeCluster,
    CeGradCluster,
    LogprobEntropyCluster,
    RowCluster,
    has_narrow,
    reading,
)
from .online import CeGradOnline, CeOnline, LogprobEntropyOnline
from .operation import CROSS_ENTROPY, CROSS_ENTROPY_GRAD, LOGPROB_ENTROPY
from .rows import NARROW, Options

WIDEST = 1 << 19  # elements of a row on chip; twice as many of 16 bit
ENTROPY = 1 << 17  # elements of a row
Pair = tuple[torch.Tensor, torch.Tensor]


class Chooses(Kernel):
    """A cluster a row where that is the faster one, else tiles. It has no tunables."""

    backend = "triton"
    on_chip = sympy.Piecewise((N, N <= WIDEST), (CeOnline().on_chip_elements(), True))
    cluster: ClassVar[RowCluster]
    online: ClassVar[Kernel]

    @override
    def unsupported(self, shape: Shape, dtype: torch.dtype, device: Device) -> str | None:
        reason = super().unsupported(shape, dtype, device)
        longest = LONGEST // dtype.itemsize
        kernel = chosen(self, shape, dtype, device, longest, shape[1] % longest == 0)
        return reason or kernel.unsupported(shape, dtype, device)

    @override
    def __call__(self, *inputs: torch.Tensor) -> torch.Tensor | Pair:
        logits = inputs[0]
        answer: torch.Tensor | Pair = variant(self, logits)(*inputs)
        return answer

    def suits(self, cols: int, several: bool, plan: Cut) -> bool:
        """Whether `cluster`, by its ``plan``, is the faster one; ``several`` as `has_narrow`."""
        return cols > NARROW or several


def variant(auto: Chooses, logits: torch.Tensor) -> RowCluster | Kernel:
    """What ``auto`` runs for these logits."""
    shape = (logits.shape[0], logits.shape[1])
    width = reading(logits)[0] if logits.numel() else 1
    return chosen(auto, shape, logits.dtype, device_of(logits), width, has_narrow(logits))


@lru_cache(maxsize=4096)
def chosen(
    auto: Chooses, shape: Shape, dtype: torch.dtype, device: Device, width: int, several: bool
) -> RowCluster | Kernel:
    """The variant for rows that are read by vectors of ``width`` elements."""
    if auto.cluster.unsupported(shape, dtype, device) is not None:
        return auto.online
    plan = auto.cluster.plan(shape, dtype, width, device) if shape[1] else None
    suits = plan is not None and auto.suits(shape[1], several, plan)
    return auto.cluster if suits else auto.online


@dataclass(frozen=True)
class CeAuto(Chooses):
    """The loss; see `Chooses`."""

    operation = CROSS_ENTROPY
    moves = CeOnline.moves
    cluster, online = CeCluster(), CeOnline()


@dataclass(frozen=True)
class CeGradAuto(Chooses):
    """Loss and gradient; see `Chooses`.

    Its traffic is by an H200's clusters, which hold `WIDEST` elements of float32. They write the
    target's element once more, M in all, and no logsumexp.
    """

    operation = CROSS_ENTROPY_GRAD
    moves = Traffic(
        reads=sympy.Piecewise((M * N + M, N <= WIDEST), (2 * M * N + M, True)),
        writes=M * N,
        read_bytes=8 * M,
        write_bytes=8 * M,
    )
    cluster, online = CeGradCluster(), CeGradOnline()

    @override
    def suits(self, cols: int, several: bool, plan: Cut) -> bool:
        return cols > 0


@dataclass(frozen=True)
class LogprobEntropyAuto(Chooses):
    """Log-probability and entropy; see `Chooses`."""

    operation = LOGPROB_ENTROPY
    moves = LogprobEntropyOnline.moves
    cluster, online = LogprobEntropyCluster(), LogprobEntropyOnline()

    @override
    def suits(self, cols: int, several: bool, plan: Cut) -> bool:
        moderate = cols <= ENTROPY or plan.warps <= FEWEST_WARPS
        return moderate and super().suits(cols, several, plan)


def forward(
    logits: torch.Tensor,
    target: torch.Tensor,
    options: Options,
    weight: torch.Tensor | None = None,
    *,
    loss: torch.Tensor,
    lse: torch.Tensor | None,
) -> None:
    """As `rows.forward`, by the cluster where it takes the call, which reads ignored rows too."""
    compute = cluster.forward if clustered(logits, weight) else rows.forward
    compute(logits, target, options, weight, loss=loss, lse=lse)


def logprob_entropy(
    logits: torch.Tensor,
    target: torch.Tensor,
    *,
    temperature: float = 1.0,
    logprob: torch.Tensor,
    entropy: torch.Tensor,
    lse: torch.Tensor,
) -> None:
    """As `rows.logprob_entropy`, by the cluster where it takes the call and is the faster one."""
    fits = isinstance(variant(LogprobEntropyAuto(), logits), RowCluster)
    compute = cluster.logprob_entropy if fits else rows.logprob_entropy
    compute(logits, target, temperature=temperature, logprob=logprob, entropy=entropy, lse=lse)


def clustered(
    logits: torch.Tensor, weight: torch.Tensor | None = None, y: torch.Tensor | None = None
) -> bool:
    """Whether functions that read rows once have them in clusters; it does not depend on M."""
    suits = logits.shape[1] > NARROW or (y is None and has_narrow(logits))
    return suits and cluster.refused(logits, weight, y) is None


def both(
    logits: torch.Tensor,
    target: torch.Tensor,
    dloss: torch.Tensor | None,
    options: Options,
    weight: torch.Tensor | None = None,
    *,
    loss: torch.Tensor,
    lse: torch.Tensor,
    dlogits: torch.Tensor,
) -> None:
    """As `rows.both`, by the cluster where it takes the call; which one does not depend on M."""
    one_for_all = dloss is None or dloss.numel() == 1
    fits = one_for_all and cluster.refused(logits, weight, dlogits) is None
    compute = cluster.both if fits else rows.both
    compute(logits, target, dloss, options, weight, loss=loss, lse=lse, dlogits=dlogits)
