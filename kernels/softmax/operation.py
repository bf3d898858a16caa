"""Softmax along the last dimension of an M×N matrix."""

from __future__ import annotations

from typing import ClassVar

import torch
from typing_extensions import override

from ..kernel import ANY, Operation
from ..traffic import M, N


class Softmax(Operation):
    """y = exp(x - max(x)) / sum(exp(x - max(x))), row by row."""

    name = "softmax"
    logits: ClassVar = {"x": ANY}
    row_sums: ClassVar = {"y": 1.0}
    exponentials = M * N

    @override
    def reference(self, x: torch.Tensor) -> torch.Tensor:
        """PyTorch's softmax in float64, shape of ``x``."""
        return torch.softmax(x.double(), dim=-1)


SOFTMAX = Softmax()
