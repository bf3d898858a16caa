"""The second product of a materialised attention, by PyTorch.

Passes: one; reads p and v, MN + 128M, writes 128M.
On chip: nominally one element.
Source: `torch.bmm`, on an NVIDIA card cuBLAS: the call that `attention_naive` ends with.
"""

from __future__ import annotations

from dataclasses import dataclass

import sympy
import torch
from typing_extensions import override

from ..attention.operation import no_heads
from ..device import Device
from ..kernel import Kernel, Shape
from ..traffic import M, N, Traffic
from .operation import ATTENTION_VALUES


@dataclass(frozen=True)
class AttentionValues(Kernel):
    """`torch.bmm`. It has no tunables."""

    operation = ATTENTION_VALUES
    backend = "torch"
    moves = Traffic(reads=M * N + 128 * M, writes=128 * M)
    on_chip = sympy.Integer(1)

    @override
    def unsupported(self, shape: Shape, dtype: torch.dtype, device: Device) -> str | None:
        """See `Kernel`; also rows that are no whole number of heads."""
        return super().unsupported(shape, dtype, device) or no_heads(shape)

    @override
    def __call__(self, p: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return torch.bmm(p, v)
