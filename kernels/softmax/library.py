"""Softmax by PyTorch: as written by hand, under TorchScript, by its own function, and compiled.

Passes:
- naive, five operations, each a pass of its own over global memory: max (reads MN, writes M),
  subtract (MN+M, MN), exp (MN, MN), sum (MN, M), divide (MN+M, MN): 8MN + 4M in all. That count
  leaves out the M int64 indices which PyTorch's max writes beside the maxima. The sum is kept in
  float32, or float64 for float64; the rest in the input's dtype, as written by hand.
- naive_script, the same five operations left to TorchScript's fuser: 8MN + 4M as written. It may
  join neighbouring element-wise operations, subtract and exp here; hardware counters show it.
- torch, `torch.softmax`: nominally one, 2MN. PyTorch decides how it treats a row, and that changes
  with N: narrow rows stay in registers, wider ones in shared memory, the widest are read three
  times.
- compiled, the five operations or `torch.softmax` by Inductor (`kernels.compiled`): nominally one,
  2MN. It keeps a narrow row on chip and reads a wide one again. It takes `torch.softmax` apart by
  rules of its own, other than the five operations, and gets other kernels of it: the faster of the
  two depends on the shape.
On chip: one element of naive and naive_script, which remember nothing between operations; else
nominally the row, N elements.
Source: the baselines of every fused-softmax tutorial, Triton's tutorial 02 among them.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable

import sympy
import torch
from typing_extensions import override

from ..compiled import CompiledFormula
from ..kernel import Kernel, TorchFunction, variant
from ..traffic import M, N, Traffic
from .operation import SOFTMAX
from .tiles import statistics_dtype

DTYPES = (*Kernel.dtypes, torch.float64)
PROFILING_RUNS = 3  # of TorchScript: two record types and shapes, the third compiles for them


def five_operations(x: torch.Tensor, statistics: torch.dtype) -> torch.Tensor:
    """Softmax of the rows of ``x``, shape (M, N) with N > 0; ``statistics`` is the sum's dtype."""
    maximum = x.max(dim=1)[0]
    shifted = x - maximum[:, None]
    exponentials = torch.exp(shifted)
    total = exponentials.sum(dim=1, dtype=statistics)
    # `out` keeps a 16-bit quotient 16 bits wide: a float32 one would be a sixth pass
    y = torch.empty_like(x, memory_format=torch.contiguous_format)
    return torch.divide(exponentials, total[:, None], out=y)


def _naive(x: torch.Tensor) -> torch.Tensor:
    """The five operations; without columns there is no maximum."""
    return five_operations(x, statistics_dtype(x.dtype)) if x.numel() > 0 else torch.empty_like(x)


Naive = variant(
    TorchFunction,
    SOFTMAX,
    function=_naive,
    backend="eager",
    dtypes=DTYPES,
    moves=Traffic(reads=5 * M * N + 2 * M, writes=3 * M * N + 2 * M),
    on_chip=sympy.Integer(1),
)


class NaiveScript(Naive):  # type: ignore[misc,valid-type]
    """The five operations, compiled by TorchScript. It has no tunables."""

    backend = "torchscript"
    __call__ = Kernel.__call__

    @override
    def prepare(self, x: torch.Tensor) -> Callable[[torch.Tensor], torch.Tensor]:
        """A script that has seen ``x`` often enough to be specialised for its shape."""
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

        for _ in range(PROFILING_RUNS):
            call(x)
        return call


def _softmax(x: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x, dim=1)


TorchSoftmax = variant(
    TorchFunction,
    SOFTMAX,
    function=_softmax,
    dtypes=DTYPES,
    moves=Traffic(reads=M * N, writes=M * N),
    on_chip=N,
)
Compiled = variant(CompiledFormula, SOFTMAX, formula=_naive, dtypes=DTYPES)
CompiledSoftmax = variant(CompiledFormula, SOFTMAX, formula=_softmax, dtypes=DTYPES)
