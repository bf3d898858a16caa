"""Attention by public libraries: PyTorch's own, and FlashAttention as its authors publish it.

Passes: nominally one, 4DM: DRAM's traffic under flash attention as long as a head's keys and
values stay in L2.
- PyTorch's. ``flash`` also writes a number for each query, its scores' logsumexp. ``math`` writes
  its scores to memory, in float32 too, and moves more than this. On a GPU ``cudnn`` is NVIDIA's
  library, ``flash`` is FlashAttention-2 and ``efficient`` is xFormers' kernel; on a CPU ``flash``
  is PyTorch's own.
- FlashAttention's for Hopper and Blackwell, in CuTe DSL, a peer. On Hopper it is the design of
  FlashAttention-3: groups of warps that load and groups that compute, the exponentials of one tile
  beside the products of the next. Each head is a batch of its own.
- The second product of `attention_naive` by itself, `torch.bmm`: MN + 128M read, 128M written.
On chip: nominally a query; of the product one element.
Source: `torch.nn.functional.scaled_dot_product_attention`, `torch.bmm`, on an NVIDIA card cuBLAS;
`flash_attn.cute.flash_attn_func` of https://github.com/Dao-AILab/flash-attention, the package
flash-attn-4.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Annotated

import sympy
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention
from typing_extensions import override

from ..device import Device
from ..kernel import Shape, TorchFunction, one_of, variant
from ..peer import Library, Peer
from ..traffic import M, N, Traffic
from .operation import ATTENTION_VALUES, HALVES, Function, OfAttention

LIBRARIES = {
    "cudnn": SDPBackend.CUDNN_ATTENTION,
    "flash": SDPBackend.FLASH_ATTENTION,
    "efficient": SDPBackend.EFFICIENT_ATTENTION,
    "math": SDPBackend.MATH,
}


@dataclass(frozen=True)
class AttentionTorch(OfAttention):
    """One call of PyTorch's, by the library named; see `OfAttention`."""

    backend = "torch"

    library: Annotated[str, one_of(*LIBRARIES)] = "cudnn"

    @override
    def limits(self, shape: Shape, dtype: torch.dtype, device: Device) -> str | None:
        """See `Kernel`; also the library's own limits."""
        if device.kind == "cpu" and self.library in ("cudnn", "efficient"):
            return f"needs a CUDA device for library={self.library}; on a CPU take flash or math"
        if device.kind == "cuda" and self.library in ("cudnn", "flash"):
            if dtype not in HALVES:
                return f"library={self.library} takes float16 and bfloat16 alone"
            if device.capability is not None and device.capability < (8, 0):
                return f"library={self.library} needs compute capability 8.0 or newer"
        if device.kind == "cuda" and torch.cuda.is_available():
            head = (1, 1, shape[1], self.dim)
            try:
                return refusal(torch.empty(head, dtype=dtype, device="cuda"), self)
            except torch.OutOfMemoryError:
                pass  # as the point itself will find
        return None

    @override
    def traffic(self) -> Traffic:
        own = super().traffic()
        return replace(own, writes=own.writes + M) if self.library == "flash" else own

    @override
    def __call__(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        with sdpa_kernel(LIBRARIES[self.library]):
            y = scaled_dot_product_attention(q[None], k[None], v[None], is_causal=self.causal)
        return y[0].contiguous()


def refusal(x: torch.Tensor, kernel: AttentionTorch) -> str | None:
    """Why a kernel's library takes no queries, keys and values like these, in its own words.

    It is asked and runs nothing: which lengths a library takes depends on its version.
    """
    with warnings.catch_warnings(record=True) as said, sdpa_kernel(LIBRARIES[kernel.library]):
        warnings.simplefilter("always")
        try:
            torch._fused_sdp_choice(x, x, x, is_causal=kernel.causal)
        except RuntimeError as error:
            texts = [str(one.message).partition(" (Triggered")[0] for one in said]
            own = [t for t in texts if not t.endswith(("because:", "runtime disabled."))]
            words = " ".join(own) or str(error).partition("\n")[0]
            return f"library={kernel.library} refuses it: {words.rstrip('.')}"
    return None


def _of_flash(shape: Shape, dtype: torch.dtype, device: Device) -> str | None:
    needs = "flash-attn-4 needs a CUDA device of compute capability 9.0 or newer"
    return None if device.at_least((9, 0)) else needs


@dataclass(frozen=True)
class AttentionFlash(Peer, OfAttention):
    """Of the package flash-attn-4; see `OfAttention`. It chooses its tiles itself."""

    library = Library(("flash-attn-4", "nvidia-cutlass-dsl", "quack-kernels"), "cute", _of_flash)
    dtypes = HALVES

    @override
    def function(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> Function:
        from flash_attn.cute import flash_attn_func

        def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
            given = (x.unsqueeze(2) for x in (q, k, v))  # batch, length, heads, D
            y: torch.Tensor = flash_attn_func(*given, causal=self.causal)[0]
            return y.squeeze(2)

        return attention


AttentionValues = variant(
    TorchFunction,
    ATTENTION_VALUES,
    function=torch.bmm,
    moves=Traffic(reads=M * N + 128 * M, writes=128 * M),
    on_chip=sympy.Integer(1),
)
