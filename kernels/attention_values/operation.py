"""The second product of a materialised attention: each head's N×N matrix and its values."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from typing_extensions import override

from ..attention.operation import SCORES, heads
from ..kernel import Array, Operation, Shape
from ..traffic import M, N


class AttentionValues(Operation):
    """y = p·v of M/N heads, p N×N and v N×128."""

    name = "attention_values"
    inputs = (Array("p", (M / N, N, N)), *heads(128, "v"))
    outputs = heads(128, "y")
    flops = 2 * 128 * M * N
    roof = "read"

    @override
    def make_inputs(
        self, shape: Shape, dtype: torch.dtype, device: torch.device | str, seed: int
    ) -> tuple[torch.Tensor, ...]:
        """See `Operation`; p is a softmax, because a card's power depends on the values."""
        p, v = super().make_inputs(shape, dtype, device, seed)
        return torch.softmax(p, -1), v

    @override
    def reference(self, p: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return _product(p, v, torch.Tensor.double)

    @override
    def magnitude(self, p: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        """See `Operation`: √Σ(p·v)² + |y|, what partial sums of independent terms come to."""
        y = _product(p, v, torch.Tensor.double)
        return _product(p, v, lambda x: x.double().square()).sqrt() + y.abs()

    @override
    def point_of(self, inputs: Sequence[torch.Tensor]) -> tuple[Shape, torch.dtype]:
        count, length, _ = inputs[0].shape
        return (count * length, length), inputs[0].dtype


def _product(
    p: torch.Tensor, v: torch.Tensor, of: Callable[[torch.Tensor], torch.Tensor]
) -> torch.Tensor:
    """The product of what ``of`` makes of both in float64, by few rows of a head at a time."""
    y = torch.empty(v.shape, dtype=torch.float64, device=v.device)
    step = max(1, SCORES // max(v.shape[1], 1))
    for head in range(len(v)):
        values = of(v[head])
        for first in range(0, v.shape[1], step):
            rows = slice(first, first + step)
            y[head, rows] = of(p[head, rows]) @ values
    return y


ATTENTION_VALUES = AttentionValues()
