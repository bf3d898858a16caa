"""As many exponentials as the softmax of an M×N matrix takes, from next to no memory."""

from __future__ import annotations

import math
from collections.abc import Sequence

import sympy
import torch
from typing_extensions import override

from ..kernel import Array, Operation, Shape
from ..traffic import M, N

STRETCH = 256  # exponentials of an element
COLS = sympy.ceiling(N / sympy.Integer(STRETCH))
# Σ exp(−j/256)/256 for j of 0 … 255, a geometric series
MEAN = -math.expm1(-1) / -math.expm1(-1 / STRETCH) / STRETCH


class Exponentials(Operation):
    """y = Σ exp(x − j/256)/256 over j of 0 … 255, for an element of x for each 256 of a row."""

    name = "exponentials"
    inputs = (Array("power", (M, COLS)),)
    outputs = (Array("y", (M, COLS)),)
    exponentials = M * COLS * STRETCH
    roof = "exponentials"

    @override
    def reference(self, x: torch.Tensor) -> torch.Tensor:
        return x.double().exp() * MEAN

    @override
    def point_of(self, inputs: Sequence[torch.Tensor]) -> tuple[Shape, torch.dtype]:
        """See `Operation`: of all N with so many columns the largest."""
        rows, cols = inputs[0].shape
        return (rows, cols * STRETCH), inputs[0].dtype


EXPONENTIALS = Exponentials()
