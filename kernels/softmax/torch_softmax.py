"""PyTorch's own softmax, the baseline that every tutorial compares itself with.

Passes: nominally one, 2MN. PyTorch decides how it treats a row, and that changes with N: narrow
rows stay in registers, wider ones in shared memory, the widest are read three times.
On chip: nominally the row, N elements.
Source: `torch.softmax`.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from typing_extensions import override

from ..kernel import Kernel
from ..traffic import M, N, Traffic
from .operation import SOFTMAX


@dataclass(frozen=True)
class TorchSoftmax(Kernel):
    """`torch.softmax` along the rows. It has no tunables."""

    operation = SOFTMAX
    backend = "torch"
    dtypes = (*Kernel.dtypes, torch.float64)
    moves = Traffic(reads=M * N, writes=M * N)
    on_chip = N

    @override
    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(x, dim=1).contiguous()
