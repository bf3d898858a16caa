"""Attention with its scores in memory: q·kᵀ, the scale, a softmax, and the product with v.

Passes: the scores are an M×N matrix, written by the first product, read and written to be scaled
(and, causal, masked: the mask is N×N and read beside), read by softmax, whose answer the second
product reads: 6MN + 4DM with a softmax of one pass, and that variant's own traffic in place of its
2MN with another. ``folded`` scales q in place of the scores: 4MN + 6DM, about the least that a
materialised attention can do.
On chip: whatever its softmax keeps of a row.
Memory: two M×N matrices beside the answer, the scores and their softmax.
Source: "the naive approach" that online-softmax tutorials describe, with `torch.bmm` for the
products.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import sympy
import torch
from typing_extensions import override

from ..device import Device
from ..kernel import Kernel, Shape, one_of
from ..softmax.auto import Auto
from ..softmax.cluster import Cluster
from ..softmax.cooperative import Cooperative
from ..softmax.hybrid import Fused, FusedRow, Hybrid, ThreePass
from ..softmax.library import Naive, TorchSoftmax
from ..softmax.online import Online
from ..traffic import M, N, Traffic
from .operation import Function, OfAttention

SOFTMAXES: dict[str, Kernel] = {
    "auto": Auto(),
    "naive": Naive(),
    "torch": TorchSoftmax(),
    "three_pass": ThreePass(),
    "fused": Fused(),
    "fused_row": FusedRow(),
    "hybrid": Hybrid(),
    "online": Online(),
    "cluster": Cluster(),
    "cooperative": Cooperative(),
}


@dataclass(frozen=True)
class AttentionNaive(OfAttention):
    """Operation by operation; see `OfAttention`."""

    backend = "eager"

    softmax: Annotated[str | None, one_of(*SOFTMAXES)] = None
    folded: bool = False

    @override
    def limits(self, shape: Shape, dtype: torch.dtype, device: Device) -> str | None:
        """See `Kernel`; also the limits of its softmax."""
        if self.causal and self.folded:
            return "folded=true has no pass over the scores in which to mask them; use causal=false"
        softmax = self._softmax(device.kind)
        if softmax.backend == "triton" and device.kind == "cpu":
            return "on a CPU its softmax would be interpreted, whose time means nothing; use torch"
        return softmax.unsupported(shape, dtype, device)

    @override
    def prepare(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> Function:
        """See `Kernel`: the mask is made, and softmax prepared for a matrix of the scores' form."""
        count, length, _ = q.shape
        scale, mask = self.dim**-0.5, None
        if self.causal:
            mask = torch.full((length, length), -torch.inf, dtype=q.dtype, device=q.device).triu(1)
        like = torch.empty(count * length, length, dtype=q.dtype, device=q.device)
        softmax = self._softmax(q.device.type).prepare(like)
        del like

        def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
            scores = torch.bmm(q * scale if self.folded else q, k.mT)
            if mask is not None:
                torch.add(mask, scores, alpha=scale, out=scores)
            elif not self.folded:
                scores.mul_(scale)
            return torch.bmm(softmax(scores.view(-1, length)).view_as(scores), v)

        return attention

    @override
    def traffic(self) -> Traffic:
        own, io = self._softmax("cuda").traffic(), self.dim * M
        scaled = io if self.folded else M * N
        mask = N * N if self.causal else 0
        return Traffic(
            reads=sympy.piecewise_fold(3 * io + scaled + mask + own.reads + M * N),
            writes=sympy.piecewise_fold(M * N + scaled + own.writes + io),
        )

    @override
    def on_chip_elements(self) -> sympy.Expr:
        return self._softmax("cuda").on_chip_elements()

    def _softmax(self, device: str) -> Kernel:
        return SOFTMAXES[self.softmax or ("torch" if device == "cpu" else "auto")]
