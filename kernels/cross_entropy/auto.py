"""The loss variant that suits a shape.

Passes: one, MN.
On chip: a tile.
The rule: `online` at every shape, until measurements of `cluster` beside it say otherwise.
Source: this project.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from typing_extensions import override

from ..device import Device
from ..kernel import Kernel, Shape
from .online import CeOnline
from .operation import CROSS_ENTROPY

ONLINE = CeOnline()


@dataclass(frozen=True)
class CeAuto(Kernel):
    """The streaming kernel. It has no tunables."""

    operation = CROSS_ENTROPY
    backend = "triton"
    moves = CeOnline.moves
    on_chip = ONLINE.on_chip_elements()

    @override
    def unsupported(self, shape: Shape, dtype: torch.dtype, device: Device) -> str | None:
        return super().unsupported(shape, dtype, device) or ONLINE.unsupported(shape, dtype, device)

    @override
    def __call__(self, logits: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return ONLINE(logits, target)
