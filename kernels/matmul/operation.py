"""A matrix product of as many operations as attention's two at the same point, for D = 128."""

from __future__ import annotations

from collections.abc import Sequence

import sympy
import torch
from typing_extensions import override

from ..kernel import Array, Operation, Shape
from ..traffic import M, N

TILE = 128
EDGE = TILE * sympy.ceiling(sympy.sqrt(2 * TILE * M) / TILE)  # E² is at least 2·128·M


class Matmul(Operation):
    """y = a·b, E×N by N×E with E = √(2·128·M) in whole tiles of 128.

    Neither edge is D: a product with one so short is bound by reading its operands, D operations a
    byte in 16 bit, which attention has on chip. This one is bound by multiplying alone.
    """

    name = "matmul"
    inputs = (Array("a", (EDGE, N)), Array("b", (N, EDGE)))
    outputs = (Array("y", (EDGE, EDGE)),)
    flops = 2 * EDGE * EDGE * N
    roof = "matmul"

    @override
    def reference(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return a.double() @ b.double()

    @override
    def magnitude(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        """See `Operation`: |y| + √Σ(a·b)², what partial sums of independent terms come to."""
        a, b = a.double(), b.double()
        return (a @ b).abs() + (a.square() @ b.square()).sqrt()

    @override
    def point_of(self, inputs: Sequence[torch.Tensor]) -> tuple[Shape, torch.dtype]:
        """See `Operation`: of all M with this E the largest."""
        edge, length = inputs[0].shape
        return (edge * edge // (2 * TILE), length), inputs[0].dtype


MATMUL = Matmul()
