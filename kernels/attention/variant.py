"""The operation that each variant of attention carries out, and the limits that all share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import sympy
import torch
from typing_extensions import override

from ..device import Device
from ..kernel import Allowed, Kernel, Operation, Shape
from ..traffic import M, Traffic
from .operation import ATTENTION, ATTENTIONS, no_heads

HALVES = (torch.float16, torch.bfloat16)


@dataclass(frozen=True, kw_only=True)
class OfAttention(Kernel):
    """A variant of attention; see `Kernel`. It reads its inputs once and writes its output once.

    Attributes:
        dim: Elements of a query, D: 64 or 128. Each is an operation of its own.
        causal: Whether a query sees only the keys up to its own place; likewise.
    """

    operation: ClassVar[Operation] = ATTENTION

    dim: Annotated[int, Allowed("64 or 128", lambda value: value in (64, 128))] = 128
    causal: bool = False

    @override
    def __post_init__(self) -> None:
        super().__post_init__()
        # a class has one operation for all its instances; this one depends on two tunables
        object.__setattr__(self, "operation", ATTENTIONS[self.dim, self.causal])

    @override
    def unsupported(self, shape: Shape, dtype: torch.dtype, device: Device) -> str | None:
        """See `Kernel`; also queries that are no whole number of heads."""
        return super().unsupported(shape, dtype, device) or no_heads(shape)

    @override
    def traffic(self) -> Traffic:
        return Traffic(reads=3 * self.dim * M, writes=self.dim * M)

    @override
    def on_chip_elements(self) -> sympy.Expr:
        return sympy.Integer(self.dim)
