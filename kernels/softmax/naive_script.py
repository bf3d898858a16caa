"""Naive softmax under TorchScript: the same five operations, left to its fuser.

Passes: 8MN + 4M as written. The fuser may join neighbouring element-wise operations, subtract
and exp here; hardware counters show the saving.
On chip: one element.
Source: the `@torch.jit.script` baseline of Triton's tutorial 02.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from dataclasses import dataclass

import sympy
import torch
from typing_extensions import override

from ..kernel import Kernel
from ..traffic import M, N, Traffic
from .naive import five_operations
from .operation import SOFTMAX
from .tiles import statistics_dtype

PROFILING_RUNS = 3  # two record types and shapes, the third compiles for them


@dataclass(frozen=True)
class NaiveScript(Kernel):
    """The five operations of `naive`, compiled by TorchScript. It has no tunables."""

    operation = SOFTMAX
    backend = "torchscript"
    dtypes = (*Kernel.dtypes, torch.float64)
    moves = Traffic(reads=5 * M * N + 2 * M, writes=3 * M * N + 2 * M)
    on_chip = sympy.Integer(1)

    @override
    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return self._script()(x)

    def prepare(self, x: torch.Tensor) -> Callable[[torch.Tensor], torch.Tensor]:
        """A script that has seen ``x`` often enough to be specialised for its shape."""
        call = self._script()
        for _ in range(PROFILING_RUNS):
            call(x)
        return call

    def _script(self) -> Callable[[torch.Tensor], torch.Tensor]:
        # A graph executor of its own: one that lives on keeps specialisations of earlier shapes
        # and, after a few, stops making new ones.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            unit = torch.jit.CompilationUnit(inspect.getsource(five_operations))
        script = unit.five_operations

        def call(x: torch.Tensor) -> torch.Tensor:
            if x.numel() == 0:
                return torch.empty_like(x)
            y: torch.Tensor = script(x, statistics_dtype(x.dtype))
            return y

        return call
