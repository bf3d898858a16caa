"""PyTorch's own attention, by one of the libraries behind it.

Passes: nominally one, 4DM: what flash attention gives DRAM to do as long as a head's keys and
values stay in L2. ``math`` writes its scores to memory, in float32 too, and is not what this says.
On chip: nominally a query.
Source: `torch.nn.functional.scaled_dot_product_attention`. On a GPU ``cudnn`` is NVIDIA's library,
``flash`` FlashAttention-2 and ``efficient`` that of xFormers; on a CPU ``flash`` is PyTorch's own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention
from typing_extensions import override

from ..device import Device
from ..kernel import Shape, one_of
from .variant import HALVES, OfAttention

LIBRARIES = {
    "cudnn": SDPBackend.CUDNN_ATTENTION,
    "flash": SDPBackend.FLASH_ATTENTION,
    "efficient": SDPBackend.EFFICIENT_ATTENTION,
    "math": SDPBackend.MATH,
}


@dataclass(frozen=True)
class AttentionTorch(OfAttention):
    """One call of PyTorch's; see `OfAttention`.

    Attributes:
        library: Which of them answers; no other is asked in its place.
    """

    backend = "torch"

    library: Annotated[str, one_of(*LIBRARIES)] = "cudnn"

    @override
    def unsupported(self, shape: Shape, dtype: torch.dtype, device: Device) -> str | None:
        """See `Kernel`; also what the library does not take."""
        reason = super().unsupported(shape, dtype, device)
        if reason is None and device.kind == "cpu" and self.library in ("cudnn", "efficient"):
            return f"library={self.library} needs a CUDA device; on a CPU there are flash and math"
        if reason is None and device.kind == "cuda" and self.library in ("cudnn", "flash"):
            if dtype not in HALVES:
                return f"library={self.library} takes float16 and bfloat16 alone"
            if device.capability is not None and device.capability < (8, 0):
                return f"library={self.library} needs compute capability 8.0 or newer"
        return reason

    @override
    def __call__(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        with sdpa_kernel(LIBRARIES[self.library]):
            y = scaled_dot_product_attention(q[None], k[None], v[None], is_causal=self.causal)
        return y[0].contiguous()
