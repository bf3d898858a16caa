"""PyTorch's own gradient of softmax, the baseline.

Passes: nominally one, 3MN. As in its softmax, PyTorch decides how often a row is read: narrow
rows stay in registers, wider ones are read twice.
On chip: nominally one row each of y and dy, 2N elements.
Source: `torch.ops.aten._softmax_backward_data`, which autograd calls for `torch.softmax`.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from typing_extensions import override

from ..kernel import Kernel
from ..traffic import M, N, Traffic
from .operation import SOFTMAX_BACKWARD


@dataclass(frozen=True)
class BackwardTorch(Kernel):
    """`aten::_softmax_backward_data` along the rows. It has no tunables."""

    operation = SOFTMAX_BACKWARD
    backend = "torch"
    dtypes = (*Kernel.dtypes, torch.float64)
    moves = Traffic(reads=2 * M * N, writes=M * N)
    on_chip = 2 * N

    @override
    def __call__(self, y: torch.Tensor, dy: torch.Tensor) -> torch.Tensor:
        return torch.ops.aten._softmax_backward_data(dy, y, 1, y.dtype).contiguous()  # type: ignore[no-any-return]
