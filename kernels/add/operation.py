"""The sum of two M×N matrices: what it takes to read two elements for each that is written."""

from __future__ import annotations

import torch
from typing_extensions import override

from ..kernel import Operation, Shape
from ..traffic import M, N, Traffic


class Add(Operation):
    """z = a + b. An input holds both, stacked: shape (2, M, N)."""

    name = "add"
    compulsory = Traffic(reads=2 * M * N, writes=M * N)
    roof = "add"

    @override
    def make_input(
        self, shape: Shape, dtype: torch.dtype, device: torch.device | str, seed: int
    ) -> torch.Tensor:
        """Standard normal values, shape (2, M, N)."""
        return super().make_input((2, *shape), dtype, device, seed)

    @override
    def reference(self, x: torch.Tensor) -> torch.Tensor:
        """The sum in float64, shape (m, N) for ``x`` of shape (2, m, N)."""
        return x[0].double() + x[1].double()


ADD = Add()
