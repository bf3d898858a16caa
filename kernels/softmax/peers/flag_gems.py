"""FlagGems' softmax, a peer: Triton, one program per row, whole or in tiles.

Passes: one where N ≤ 32768, 2MN; else two with a running maximum and sum for each lane of a tile,
3MN, the second from the row's end and marked to be evicted first.
On chip: the row, N elements padded to a power of two, or a tile of 4096. Rows that are not
contiguous are copied first, by the library itself.
The function is the one that `flag_gems.enable()` would put in the place of
`torch.softmax`; nothing is enabled here, and PyTorch keeps its own.
Source: FlagGems, https://github.com/flagos-ai/FlagGems, `src/flag_gems/ops/softmax.py`, with the
sizes of `runtime/backend/_nvidia/heuristics_config_utils.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import sympy
import torch
from typing_extensions import override

from ...device import Device
from ...kernel import Shape
from ...peer import Peer
from ...traffic import M, N, Traffic
from ..operation import SOFTMAX
from ..tiles import too_many_rows

WIDEST_WHOLE = 32 * 1024  # softmax_heur_tile_n_inner: a row as wide as this is one tile
TILE = 4096  # the tile of a wider one


@dataclass(frozen=True)
class FlagGems(Peer):
    """The forward softmax of the package flag-gems. It chooses its tile and warps itself."""

    operation = SOFTMAX
    backend = "triton"
    packages = ("flag-gems",)
    on_chip = sympy.Piecewise((N, N <= WIDEST_WHOLE), (sympy.Integer(TILE), True))

    @override
    def unsupported(self, shape: Shape, dtype: torch.dtype, device: Device) -> str | None:
        """See `Kernel`; the library also looks for a card when it is imported."""
        reason = super().unsupported(shape, dtype, device) or too_many_rows(shape)
        if reason is None and device.kind != "cuda":
            return "needs a CUDA device: FlagGems cannot be imported without one"
        return reason

    @override
    def function(self, x: torch.Tensor) -> Callable[[torch.Tensor], torch.Tensor]:
        from flag_gems.ops import softmax

        return partial(softmax, dim=1)

    @override
    def traffic(self) -> Traffic:
        reads = sympy.Piecewise((M * N, N <= WIDEST_WHOLE), (2 * M * N, True))
        return Traffic(reads=reads, writes=M * N)
