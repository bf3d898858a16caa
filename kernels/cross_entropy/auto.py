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
from typing import Any, ClassVar

import sympy
import torch
from typing_extensions import override

from ..cluster.cut import Cut, reading
from ..device import Device, device_of
from ..kernel import Kernel, Shape, Tensors
from ..traffic import M, N, Traffic
from ..vectors import LONGEST
from . import rows
from .cluster import (
    FEWEST_WARPS,
    CeCluster,
    CeGradCluster,
    LogprobEntropyCluster,
    RowCluster,
    has_narrow,
)
from .online import CeGradOnline, CeOnline, LogprobEntropyOnline
from .operation import CROSS_ENTROPY, CROSS_ENTROPY_GRAD, LOGPROB_ENTROPY
from .rows import NARROW, PLAIN, Options, Results

WIDEST = 1 << 19  # elements of a row on chip; twice as many of 16 bit
ENTROPY = 1 << 17  # elements of a row


def suits(rule: str, cols: int, several: bool, plan: Cut) -> bool:
    """Whether a cluster is faster for ``"numbers"``, ``"entropy"``, ``"gradient"`` or ``"matrix"``.

    ``several`` is `has_narrow`, and ``plan`` the cluster's cut of rows of ``cols`` elements.
    """
    if rule == "gradient":
        return cols > 0
    if rule == "entropy" and cols > ENTROPY and plan.warps > FEWEST_WARPS:
        return False
    return cols > NARROW or (several and rule != "matrix")


class Chooses(Kernel):
    """One cluster per row where that is faster, else tiles. It has no tunables."""

    backend = "triton"
    on_chip = sympy.Piecewise((N, N <= WIDEST), (CeOnline().on_chip_elements(), True))
    rule: ClassVar[str] = "numbers"
    cluster: ClassVar[RowCluster]
    online: ClassVar[Kernel]

    @override
    def unsupported(self, shape: Shape, dtype: torch.dtype, device: Device) -> str | None:
        reason = super().unsupported(shape, dtype, device)
        longest = LONGEST // dtype.itemsize
        kernel = chosen(self, shape, dtype, device, longest, shape[1] % longest == 0)
        return reason or kernel.unsupported(shape, dtype, device)

    @override
    def __call__(self, *inputs: torch.Tensor) -> Tensors:
        answer: Tensors = variant(self, inputs[0])(*inputs)
        return answer


def variant(auto: Chooses, x: torch.Tensor, written: torch.Tensor | None = None) -> Kernel:
    """The variant that ``auto`` runs for these logits, and with this matrix to write."""
    shape = (x.shape[0], x.shape[1])
    width = reading(x, written)[0] if x.numel() else 1
    return chosen(auto, shape, x.dtype, device_of(x), width, has_narrow(x))


@lru_cache(maxsize=4096)
def chosen(
    auto: Chooses, shape: Shape, dtype: torch.dtype, device: Device, width: int, several: bool
) -> Kernel:
    """The variant for rows that are read by vectors of ``width`` elements."""
    if auto.cluster.unsupported(shape, dtype, device) is not None:
        return auto.online
    plan = auto.cluster.plan(shape, dtype, width, device) if shape[1] else None
    faster = plan is not None and suits(auto.rule, shape[1], several, plan)
    return auto.cluster if faster else auto.online


@dataclass(frozen=True)
class CeAuto(Chooses):
    """The loss; see `Chooses`."""

    operation = CROSS_ENTROPY
    moves = CeOnline.moves
    cluster, online = CeCluster(), CeOnline()


@dataclass(frozen=True)
class CeGradAuto(Chooses):
    """Loss and gradient; see `Chooses`.

    The traffic assumes an H200, whose clusters hold `WIDEST` float32 elements. They write each
    target's element twice, M more in all, and no logsumexp.
    """

    operation = CROSS_ENTROPY_GRAD
    moves = Traffic(
        reads=sympy.Piecewise((M * N + M, N <= WIDEST), (2 * M * N + M, True)),
        writes=M * N,
        read_bytes=8 * M,
        write_bytes=8 * M,
    )
    rule = "gradient"
    cluster, online = CeGradCluster(), CeGradOnline()


@dataclass(frozen=True)
class LogprobEntropyAuto(Chooses):
    """Log-probability and entropy; see `Chooses`."""

    operation = LOGPROB_ENTROPY
    moves = LogprobEntropyOnline.moves
    rule = "entropy"
    cluster, online = LogprobEntropyCluster(), LogprobEntropyOnline()


class _Matrix(CeAuto):
    """The rule of log-softmax."""

    rule = "matrix"


def clustered(
    x: torch.Tensor,
    results: Results,
    weight: torch.Tensor | None = None,
    dloss: torch.Tensor | None = None,
) -> bool:
    """Whether `run` uses clusters; the answer does not depend on M."""
    auto: Chooses = CeAuto()
    if results.entropy is not None:
        auto = LogprobEntropyAuto()
    elif results.matrix is not None:
        auto = _Matrix() if results.dlogits is None else CeGradAuto()
    plain = weight is None and (dloss is None or dloss.numel() == 1)  # else streaming alone
    return plain and isinstance(variant(auto, x, results.matrix), RowCluster)


def run(
    x: torch.Tensor,
    options: Options = PLAIN,
    *,
    target: torch.Tensor | None = None,
    weight: torch.Tensor | None = None,
    dloss: torch.Tensor | None = None,
    **results: torch.Tensor | None,
) -> None:
    """Like `rows.run`, by clusters where they are faster; these read ignored rows too."""
    outputs: dict[str, Any] = results
    if clustered(x, Results(**results), weight, dloss):
        CeCluster().run(x, options, target=target, dloss=dloss, **outputs)
    else:
        rows.run(x, options, target=target, weight=weight, dloss=dloss, **outputs)
