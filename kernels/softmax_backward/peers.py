"""The gradient of softmax by public libraries, peers: QuACK's, Liger-Kernel's and FlagGems'.

Passes: QuACK's and Liger's one, 3MN: rows of y and dy are held whole, by a cluster of up to sixteen
blocks or by one program. FlagGems' one where N ≤ 1024, the widest tile that its tuner tries, else
two, 5MN: the sum, then the answer. A narrower tile, if the tuner prefers one, reads twice as well.
On chip: one row each of y and dy, 2N elements; of FlagGems' wider rows two tiles.
It calls the function behind each library's backward pass, without autograd. FlagGems'
times five tiles when it first meets a shape, which is before any sample is taken.
Source: `quack/softmax.py` (`softmax_bwd`), `liger_kernel/ops/softmax.py` (`_softmax_backward`),
`flag_gems/ops/softmax.py` (`softmax_backward`), of the packages that `kernels.softmax.peers` names.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import sympy
import torch
from typing_extensions import override

from ..device import Device
from ..kernel import Kernel, Shape
from ..peer import Peer
from ..softmax.peers.liger import WIDEST
from ..softmax.peers.quack import refused
from ..softmax.tiles import too_many_rows
from ..traffic import M, N, Traffic
from .operation import SOFTMAX_BACKWARD

Gradient = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]  # of y and dy
WIDEST_TILE = 1024  # of FlagGems: tune_configs.yaml, softmax_inner


@dataclass(frozen=True)
class BackwardQuack(Peer):
    """Of the package quack-kernels. It chooses cluster and threads itself."""

    operation = SOFTMAX_BACKWARD
    backend = "cute"
    packages = ("quack-kernels", "nvidia-cutlass-dsl")
    moves = Traffic(reads=2 * M * N, writes=M * N)
    on_chip = 2 * N

    @override
    def unsupported(self, shape: Shape, dtype: torch.dtype, device: Device) -> str | None:
        return super().unsupported(shape, dtype, device) or refused(shape, dtype, device, 2)

    @override
    def function(self, y: torch.Tensor, dy: torch.Tensor) -> Gradient:
        from quack.softmax import softmax_bwd

        return lambda y, dy: softmax_bwd(dy, y)


@dataclass(frozen=True)
class BackwardLiger(Peer):
    """Of the package liger-kernel. It chooses its warps itself."""

    operation = SOFTMAX_BACKWARD
    backend = "triton"
    dtypes = (*Kernel.dtypes, torch.float64)
    packages = ("liger-kernel",)
    moves = Traffic(reads=2 * M * N, writes=M * N)
    on_chip = 2 * N

    @override
    def unsupported(self, shape: Shape, dtype: torch.dtype, device: Device) -> str | None:
        """See `Kernel`; also rows wider than the library takes."""
        reason = super().unsupported(shape, dtype, device) or too_many_rows(shape)
        if reason is None and shape[1] > WIDEST:
            return f"Liger takes rows of at most {WIDEST}, not {shape[1]}"
        return reason

    @override
    def function(self, y: torch.Tensor, dy: torch.Tensor) -> Gradient:
        from liger_kernel.ops.softmax import _softmax_backward
        from liger_kernel.ops.utils import calculate_settings

        block, warps = calculate_settings(y.shape[-1])
        return lambda y, dy: _softmax_backward(dy, y, block, warps, False)


@dataclass(frozen=True)
class BackwardFlagGems(Peer):
    """Of the package flag-gems. It tunes its tile itself."""

    operation = SOFTMAX_BACKWARD
    backend = "triton"
    packages = ("flag-gems",)
    on_chip = sympy.Piecewise((2 * N, N <= WIDEST_TILE), (sympy.Integer(2 * WIDEST_TILE), True))

    @override
    def unsupported(self, shape: Shape, dtype: torch.dtype, device: Device) -> str | None:
        """See `Kernel`; the library also looks for a card when it is imported."""
        reason = super().unsupported(shape, dtype, device) or too_many_rows(shape)
        if reason is None and device.kind != "cuda":
            return "needs a CUDA device: FlagGems cannot be imported without one"
        return reason

    @override
    def function(self, y: torch.Tensor, dy: torch.Tensor) -> Gradient:
        from flag_gems.ops import softmax_backward

        return lambda y, dy: softmax_backward(dy, y, 1, y.dtype)

    @override
    def traffic(self) -> Traffic:
        reads = sympy.Piecewise((2 * M * N, N <= WIDEST_TILE), (4 * M * N, True))
        return Traffic(reads=reads, writes=M * N)
