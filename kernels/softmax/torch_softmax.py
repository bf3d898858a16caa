"""PyTorch's own softmax, the baseline that every tutorial compares itself with.

Passes: nominally one, 2MN. How it treats a row is PyTorch's affair and changes with N: narrow
rows stay in registers, wider ones in shared memory, the widest are read three times.
On chip: nominally the row, N elements.
Source: `torch.softmax`.
"""

from __future__ import annotations

from dataclasses import dataclass

import sympy
import torch

from kernels.kernel import Kernel
from kernels.softmax.operation import SOFTMAX
from kernels.traffic import M, N, Traffic


@dataclass(frozen=True)
class TorchSoftmax(Kernel):
    """`torch.softmax` along the rows. It has no tunables."""

    operation = SOFTMAX
    backend = "torch"
    dtypes = (*Kernel.dtypes, torch.float64)

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """See `Kernel`."""
        return torch.softmax(x, dim=1).contiguous()

    def traffic(self) -> Traffic:
        """See `Kernel`."""
        return Traffic(reads=M * N, writes=M * N)

    def on_chip_elements(self) -> sympy.Expr:
        """See `Kernel`."""
        return N
