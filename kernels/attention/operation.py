"""Attention, forward: y = softmax(q·kᵀ / √D)·v for each of some heads.

A point (M, N) is M queries in all, in heads of N queries and N keys each: B·H = M/N heads of
sequences S = N. So the matrix whose softmax is in the middle is M×N. D, the elements of a query,
and whether a query sees only the keys up to its own place (causal) are properties of the operation,
of which there is one for each combination.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

import sympy
import torch
from typing_extensions import override

from ..kernel import Array, Operation, Shape
from ..traffic import M, N

SCORES = 1 << 25  # elements of the reference's scores at once, and of their softmax, in float64


def no_heads(shape: Shape) -> str | None:
    """Why M rows by N are no whole number of heads, each of N rows; None where they are."""
    if 0 in shape or shape[0] % shape[1]:
        return f"takes M rows in heads of N, and {shape[0]} is no multiple of {shape[1]}"
    return None


def heads(dim: int, *names: str) -> tuple[Array, ...]:
    """Tensors of M/N heads, each N×``dim``."""
    return tuple(Array(name, (M / N, N, sympy.Integer(dim))) for name in names)


class OfHeads(Operation):
    """Operations of q, k and v with the result y; each has the shape (M/N, N, D)."""

    inputs = heads(128, "q", "k", "v")
    outputs = heads(128, "y")

    @override
    def point_of(self, inputs: Sequence[torch.Tensor]) -> tuple[Shape, torch.dtype]:
        count, length, _ = inputs[0].shape
        return (count * length, length), inputs[0].dtype


class Attention(OfHeads):
    """Of D = 128, each query sees all keys of its head.

    Attributes:
        dim: D.
        causal: Whether query i sees keys 0 … i alone.
    """

    name = "attention"
    flops = 4 * 128 * M * N
    exponentials = M * N
    roof = "attention_io"
    dim: ClassVar[int] = 128
    causal: ClassVar[bool] = False

    @override
    def reference(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return self._weighted(q, k, v.double())

    @override
    def magnitude(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        """See `Operation`: Σ p·|v|.

        Before the second product, p is rounded to the inputs' dtype, each element by at most half a
        spacing: together at most half an epsilon of this magnitude, which is one spacing. The sum
        of p, the scores and the products stay in float32, and the answer is rounded once more, by
        half a spacing. The tolerance for a result that is rounded once covers both. The
        materialised variants also round their scores to 16 bit, which moves p by half a spacing of
        a number up to 6. The tolerance for rounding after each operation covers this.
        """
        return self._weighted(q, k, v.double().abs())

    def _weighted(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        """softmax(q·kᵀ/√D)·v in float64, by few queries at a time: scores of any length fit."""
        y = torch.empty(q.shape, dtype=torch.float64, device=q.device)
        length = q.shape[1]
        step = max(1, SCORES // max(length, 1))
        places = torch.arange(length, device=q.device)
        for head in range(len(q)):
            keys = k[head].double().mT
            for first in range(0, length, step):
                rows = slice(first, first + step)
                scores = (q[head, rows].double() @ keys).div_(self.dim**0.5)
                if self.causal:
                    scores.masked_fill_(places[None, :] > places[rows, None], -torch.inf)
                y[head, rows] = torch.softmax(scores, -1) @ v[head]
        return y


class AttentionCausal(Attention):
    """Of D = 128, causal: of M·N pairs of query and key, M·(N + 1)/2 count."""

    name = "attention_causal"
    flops = 2 * 128 * M * (N + 1)
    exponentials = M * (N + 1) / 2
    causal = True


class Attention64(Attention):
    """Of D = 64."""

    name = "attention_64"
    inputs, outputs = heads(64, "q", "k", "v"), heads(64, "y")
    flops = 4 * 64 * M * N
    dim = 64


class Attention64Causal(AttentionCausal):
    """Of D = 64, causal."""

    name = "attention_64_causal"
    inputs, outputs = heads(64, "q", "k", "v"), heads(64, "y")
    flops = 2 * 64 * M * (N + 1)
    dim = 64


ATTENTION = Attention()
ATTENTIONS = {
    (one.dim, one.causal): one
    for one in (ATTENTION, AttentionCausal(), Attention64(), Attention64Causal())
}
Function = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]  # of q, k and v
