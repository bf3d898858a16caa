"""FlashAttention as its authors publish it for Hopper and Blackwell, a peer: CuTe DSL.

Passes: nominally one, 4DM. On Hopper it is FlashAttention-3's design: groups of warps that load and
groups that compute, the exponentials of one tile beside the products of the next.
On chip: nominally a query.
The function is `flash_attn.cute.flash_attn_func`; each head is a batch of its own.
Source: `flash_attn/cute` of https://github.com/Dao-AILab/flash-attention, the package flash-attn-4.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from typing_extensions import override

from ..device import Device
from ..kernel import Shape
from .operation import Function
from .variant import HALVES, OfAttention


@dataclass(frozen=True)
class AttentionFlash(OfAttention):
    """Of the package flash-attn-4; see `OfAttention`. It chooses its tiles itself."""

    backend = "cute"
    dtypes = HALVES
    packages = ("flash-attn-4", "nvidia-cutlass-dsl", "quack-kernels")

    @override
    def unsupported(self, shape: Shape, dtype: torch.dtype, device: Device) -> str | None:
        """See `Kernel`; also cards that the library has no kernel for."""
        reason = super().unsupported(shape, dtype, device)
        if reason is None and (device.capability is None or device.capability < (9, 0)):
            return "flash-attn-4 needs a CUDA device of compute capability 9.0 or newer"
        return reason

    @override
    def __call__(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return self.prepare(q, k, v)(q, k, v)

    @override
    def prepare(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> Function:
        """See `Kernel`: the library is imported now."""
        from flash_attn.cute import flash_attn_func

        def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
            given = (x.unsqueeze(2) for x in (q, k, v))  # batch, length, heads, D
            y: torch.Tensor = flash_attn_func(*given, causal=self.causal)[0]
            return y.squeeze(2)

        return attention
