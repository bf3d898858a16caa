"""Liger-Kernel's softmax, a peer: Triton, one program per row, which it holds whole.

Passes: one, 2MN. The library also has a kernel that loops over a row, but its block is always the
row padded to a power of two, so that this one is never launched; beyond 65536 it refuses.
On chip: the row, N elements padded to a power of two. Rows that are not contiguous are copied
first, by the library itself.
The function is `liger_kernel.ops.softmax._softmax_forward`, the body of the public
`LigerSoftmaxFunction`, without the bookkeeping for gradients and whatever implementation the
environment selects.
Source: Liger-Kernel, https://github.com/linkedin/Liger-Kernel, `src/liger_kernel/ops/softmax.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from typing_extensions import override

from ...device import Device
from ...kernel import Kernel, Shape
from ...peer import Peer
from ...traffic import M, N, Traffic
from ..operation import SOFTMAX
from ..tiles import too_many_rows

WIDEST = 65536  # MAX_FUSED_SIZE of liger_kernel.ops.utils.calculate_settings


@dataclass(frozen=True)
class Liger(Peer):
    """The forward softmax of the package liger-kernel. It chooses its warps itself."""

    operation = SOFTMAX
    backend = "triton"
    dtypes = (*Kernel.dtypes, torch.float64)
    packages = ("liger-kernel",)
    moves = Traffic(reads=M * N, writes=M * N)
    on_chip = N

    @override
    def unsupported(self, shape: Shape, dtype: torch.dtype, device: Device) -> str | None:
        """See `Kernel`; also rows wider than the library takes."""
        reason = super().unsupported(shape, dtype, device) or too_many_rows(shape)
        if reason is None and shape[1] > WIDEST:
            return f"Liger takes rows of at most {WIDEST}, not {shape[1]}"
        return reason

    @override
    def function(self, x: torch.Tensor) -> Callable[[torch.Tensor], torch.Tensor]:
        from liger_kernel.ops.softmax import _softmax_forward

        def forward(x: torch.Tensor) -> torch.Tensor:
            y: torch.Tensor = _softmax_forward(x)[0]
            return y

        return forward
