"""Softmax through `torch.compile`: of the five operations of `naive`, and of `torch.softmax`.

Passes: nominally one, 2MN. Inductor decides what to do with a row: it keeps a narrow one on chip
and reads a wide one again. It takes `torch.softmax` apart by rules of its own, other than the five
operations, and gets other kernels of it: the faster of the two depends on the shape.
On chip: nominally the row, N elements.
Source: `kernels.compiled`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from typing_extensions import override

from ..compiled import CompiledFormula
from ..kernel import Kernel
from .naive import five_operations
from .operation import SOFTMAX
from .tiles import statistics_dtype


@dataclass(frozen=True)
class Compiled(CompiledFormula):
    """The five operations of `naive`; see `CompiledFormula`."""

    operation = SOFTMAX
    dtypes = (*Kernel.dtypes, torch.float64)
    formula = staticmethod(five_operations)

    @override
    def prepare(self, *inputs: torch.Tensor) -> Callable[..., Any]:
        """See `Kernel`; a row of no columns has no maximum."""
        return super().prepare(*inputs) if inputs[0].numel() > 0 else torch.empty_like

    @override
    def constants(self, *inputs: torch.Tensor) -> tuple[Any, ...]:
        return (statistics_dtype(inputs[0].dtype),)


def _softmax(x: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x, dim=1)


@dataclass(frozen=True)
class CompiledSoftmax(CompiledFormula):
    """`torch.softmax` along the rows; see `CompiledFormula`."""

    operation = SOFTMAX
    dtypes = (*Kernel.dtypes, torch.float64)
    formula = staticmethod(_softmax)
