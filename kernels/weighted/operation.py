"""The sum of some vectors, weighted by the softmax of each row of an M×N matrix."""

from __future__ import annotations

from typing import ClassVar

import sympy
import torch
from typing_extensions import override

from ..kernel import ANY, Array, Operation
from ..traffic import M, N

WIDTH = 4  # elements of a vector


class Weighted(Operation):
    """y = softmax(x)·v: what attention makes of its scores x and its values v, N vectors of 4."""

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


WEIGHTED = Weighted()
