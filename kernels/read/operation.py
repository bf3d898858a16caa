"""The maximum of each stretch of an M×N matrix: every element is read, few are written."""

from __future__ import annotations

import sympy
import torch
from typing_extensions import override

from ..kernel import Array, Operation
from ..traffic import M, N

STRETCH = 4096  # elements of a row that become one


class Read(Operation):
    """y[i, j] = max of x[i, 4096·j … 4096·(j + 1) − 1], shorter at the end of a row."""

    name = "read"
    outputs = (Array("y", (M, sympy.ceiling(N / sympy.Integer(STRETCH)))),)
    exact = True
    roof = "read"

    @override
    def reference(self, x: torch.Tensor) -> torch.Tensor:
        whole = x.shape[1] // STRETCH * STRETCH
        rest = x[:, whole:].amax(-1, keepdim=True) if whole < x.shape[1] else x[:, whole:]
        return torch.cat([x[:, :whole].unflatten(-1, (-1, STRETCH)).amax(-1), rest], -1).double()


READ = Read()
