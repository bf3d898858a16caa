"""The sum of two M×N matrices: two elements are read for each element written."""

from __future__ import annotations

from typing import ClassVar

import torch
from typing_extensions import override

from ..kernel import Array, Operation


class Add(Operation):
    """z = a + b."""

    name = "add"
    inputs = (Array("a"), Array("b"))
    outputs = (Array("z"),)
    row_sums: ClassVar = {"z": None}
    roof = "add"

    @override
    def reference(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        """The sum in float64."""
        return a.double() + b.double()


ADD = Add()
