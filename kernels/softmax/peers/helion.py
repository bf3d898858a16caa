"""Softmax in Helion, a peer: PyTorch's language of tiles, which becomes Triton.

Passes: one where N ≤ 32768, 2MN: a program holds a row, or several narrow ones. Else three, 4MN,
each a loop over tiles of 8192: Helion's rolled reductions of maximum, sum and answer.
On chip: the row, N elements padded to a power of two, or a tile.
The kernel is the one of Helion's examples. Its configuration is given, so that nothing is tuned:
rows to fill a tile of 2048 elements, a warp for 512 of them, 4 to 32. Where the index of an element
needs 64 bit is Helion's own decision.
Source: Helion, https://github.com/pytorch/helion, `examples/softmax.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import sympy
import torch
from typing_extensions import override

from ...device import Device
from ...kernel import Shape
from ...language import next_power_of_two
from ...peer import Peer
from ...traffic import M, N, Traffic
from ..operation import SOFTMAX
from ..tiles import too_many_rows

TORCH_FROM = "2.13"  # 2.11 lacks a name that Helion 1.5.1 imports; 2.12 was not tried
WIDEST_WHOLE = 32768  # elements of a row that is one tile
LOOP = 8192  # and of a tile of a wider one
TILE = 2048  # elements that narrow rows fill together
hl: Any = None  # helion.language: a kernel sees the names of its module, so it is put there late


@dataclass(frozen=True)
class Helion(Peer):
    """A kernel of our own in the language of the package helion, configured by the shape."""

    operation = SOFTMAX
    backend = "triton"
    packages = ("helion",)
    on_chip = sympy.Piecewise((N, N <= WIDEST_WHOLE), (sympy.Integer(LOOP), True))

    @override
    def unsupported(self, shape: Shape, dtype: torch.dtype, device: Device) -> str | None:
        """See `Kernel`; Helion's code has no interpreter."""
        reason = super().unsupported(shape, dtype, device) or too_many_rows(shape)
        if reason is None and torch.__version__ < TORCH_FROM:
            return f"Helion imports what PyTorch {torch.__version__} lacks; {TORCH_FROM} has it"
        if reason is None and device.kind != "cuda":
            return "needs a CUDA device"
        return reason

    @override
    def function(self, x: torch.Tensor) -> Callable[[torch.Tensor], torch.Tensor]:
        global hl
        import helion
        import helion.language as hl

        config = helion.Config(**configuration(*x.shape))
        kernel = helion.kernel(_softmax, config=config, static_shapes=True)
        compiled: Callable[[torch.Tensor], torch.Tensor] = kernel.bind((x,)).compile_config(config)
        return compiled

    @override
    def traffic(self) -> Traffic:
        reads = sympy.Piecewise((M * N, N <= WIDEST_WHOLE), (3 * M * N, True))
        return Traffic(reads=reads, writes=M * N)


def configuration(rows: int, cols: int) -> dict[str, Any]:
    """The arguments of `helion.Config` for a matrix of that shape."""
    width = next_power_of_two(cols)
    whole = cols <= WIDEST_WHOLE
    together = min(max(TILE // width, 1), next_power_of_two(rows))
    elements = together * width if whole else LOOP
    chosen = {"block_sizes": [together], "num_warps": min(max(elements // 512, 4), 32)}
    # a row of one element has nothing to reduce, and Helion then takes no such option
    loops = {"reduction_loops": [None if whole else LOOP]} if cols > 1 else {}
    return chosen | {"num_stages": 1} | loops


def _softmax(x: torch.Tensor) -> torch.Tensor:
    rows, cols = x.size()
    y = torch.empty([rows, cols], dtype=x.dtype, device=x.device)
    for tile in hl.tile(rows):
        y[tile, :] = torch.nn.functional.softmax(x[tile, :], dim=1)
    return y
