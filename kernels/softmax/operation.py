"""Softmax along the last dimension of an M×N matrix."""

from __future__ import annotations

import torch
from typing_extensions import override

from ..kernel import Operation
from ..traffic import M, N, Traffic


class Softmax(Operation):
    """y = exp(x - max(x)) / sum(exp(x - max(x))), row by row."""

    name = "softmax"
    compulsory = Traffic(reads=M * N, writes=M * N)

    @override
    def reference(self, x: torch.Tensor) -> torch.Tensor:
        """PyTorch's softmax in float64, shape of ``x``."""
        return torch.softmax(x.double(), dim=-1)


SOFTMAX = Softmax()
