"""Attention, forward: y = softmax(q·kᵀ / √D)·v for each of some heads; its parts.

A point (M, N) is M queries in all, in heads of N queries and N keys each: B·H = M/N heads of
sequences S = N. So the matrix whose softmax is in the middle is M×N. D, the elements of a query,
and whether a query sees only the keys up to its own place (causal) are properties of the operation,
of which there is one for each combination.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Annotated, ClassVar

import sympy
import torch
from typing_extensions import override

from ..kernel import ANY, Allowed, Array, Kernel, Operation, Shape
from ..traffic import M, N, Traffic, tunable

HALVES = (torch.float16, torch.bfloat16)
DIM = tunable("dim")
WIDTH = 4  # elements of a vector of `Weighted`
SCORES = 1 << 25  # elements of the reference's scores at once, and of their softmax, in float64


def heads(dim: int, *names: str) -> tuple[Array, ...]:
    """Tensors of M/N heads, each N×``dim``."""
    return tuple(Array(name, (M / N, N, sympy.Integer(dim))) for name in names)


class OfHeads(Operation):
    """Operations of q, k and v with the result y; each has the shape (M/N, N, D)."""

    inputs = heads(128, "q", "k", "v")
    outputs = heads(128, "y")

    @override
    def refuses(self, shape: Shape) -> str | None:
        if 0 in shape or shape[0] % shape[1]:
            return f"takes M rows in heads of N, and {shape[0]} is no multiple of {shape[1]}"
        return None

    @override
    def point_of(self, inputs: Sequence[torch.Tensor]) -> tuple[Shape, torch.dtype]:
        count, length, _ = inputs[0].shape
        return (count * length, length), inputs[0].dtype


class Attention(OfHeads):
    """Attention of one D, causal or not: those of `ATTENTIONS`.

    Attributes:
        dim: D.
        causal: Whether query i sees keys 0 … i alone; else it sees all of its head.
    """

    roof = "attention_io"
    dim: ClassVar[int]
    causal: ClassVar[bool]

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
        """softmax(q·kᵀ/√D)·v in float64."""
        y = torch.empty(q.shape, dtype=torch.float64, device=q.device)
        places = torch.arange(q.shape[1], device=q.device)
        step = max(1, SCORES // max(q.shape[1], 1))  # rows at a time, of which all scores fit
        for head, first in product(range(len(q)), range(0, q.shape[1], step)):
            rows = slice(first, first + step)
            scores = (q[head, rows].double() @ k[head].double().mT).div_(self.dim**0.5)
            if self.causal:
                scores.masked_fill_(places[None, :] > places[rows, None], -torch.inf)
            y[head, rows] = torch.softmax(scores, -1) @ v[head]
        return y


def _attention(dim: int, causal: bool) -> Attention:
    """Attention of D = ``dim``; of M·N pairs of query and key, M·(N + 1)/2 count if causal."""
    pairs = M * (N + 1) / 2 if causal else M * N
    own = {
        "__module__": __name__,
        "name": "attention" + ("" if dim == 128 else f"_{dim}") + ("_causal" if causal else ""),
        **{"inputs": heads(dim, "q", "k", "v"), "outputs": heads(dim, "y")},
        **{"flops": 4 * dim * pairs, "exponentials": pairs, "dim": dim, "causal": causal},
    }
    made: Attention = type("Attention", (Attention,), own)()
    return made


ATTENTIONS = {each: _attention(*each) for each in product((128, 64), (False, True))}
ATTENTION = ATTENTIONS[128, False]
Function = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]  # of q, k and v


@dataclass(frozen=True, kw_only=True)
class OfAttention(Kernel):
    """A variant of attention, which reads its inputs once and writes its output once."""

    operation: ClassVar[Operation] = ATTENTION
    moves = Traffic(reads=3 * DIM * M, writes=DIM * M)
    on_chip = DIM

    dim: Annotated[int, Allowed("64 or 128", lambda value: value in (64, 128))] = 128
    causal: bool = False

    @override
    def __post_init__(self) -> None:
        super().__post_init__()
        # a class has one operation for all its instances; this one depends on two tunables
        object.__setattr__(self, "operation", ATTENTIONS[self.dim, self.causal])


class Product(Operation):
    """The product of two matrices of independent terms, or of several pairs of them."""

    @override
    def reference(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return a.double() @ b.double()

    @override
    def magnitude(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        """See `Operation`: |a·b| + √Σ(a·b)².

        So large do partial sums get. A sum in float32 rounds each of them, by up to half a spacing,
        and independent roundings of N terms add up like √N: measured where products are added one
        by one, the worst of 10⁵ elements are 12 spacings off at N = 127, 34 at 1000 and 63 at 4096.
        The tolerance of 32 is right up to 256 terms; beyond, the second summand of a float32
        product grows by √(N/256). A 16-bit answer is rounded once from such a sum, whose own error
        does not show.
        """
        terms = a.shape[-1] if a.dtype == torch.float32 else 1
        roundings: float = max(1.0, terms / 256) ** 0.5
        squares = a.double().square() @ b.double().square()
        return self.reference(a, b).abs() + squares.sqrt() * roundings


class AttentionValues(Product, OfHeads):
    """y = p·v of M/N heads, p N×N and v N×128: the second product of a materialised attention."""

    name = "attention_values"
    inputs = (Array("p", (M / N, N, N)), *heads(128, "v"))
    flops = 2 * 128 * M * N
    roof = "read"

    @override
    def make_inputs(
        self, shape: Shape, dtype: torch.dtype, device: torch.device | str, seed: int
    ) -> tuple[torch.Tensor, ...]:
        """See `Operation`; p is a softmax, because a card's power depends on the values."""
        p, v = super().make_inputs(shape, dtype, device, seed)
        return torch.softmax(p, -1), v


class Weighted(Operation):
    """y = softmax(x)·v of M×N scores x and N vectors v of 4: attention's second half, by itself."""

    name = "weighted"
    logits: ClassVar = {"x": ANY}
    inputs = (Array("x"), Array("v", (N, sympy.Integer(WIDTH))))
    outputs = (Array("y", (M, sympy.Integer(WIDTH))),)

    @override
    def reference(self, x: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return torch.softmax(x.double(), -1) @ v.double()

    @override
    def magnitude(self, x: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        """See `Operation`: Σ p·|v|."""
        return torch.softmax(x.double(), -1) @ v.double().abs()


ATTENTION_VALUES, WEIGHTED = AttentionValues(), Weighted()
