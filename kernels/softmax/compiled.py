"""Naive softmax through `torch.compile`: Inductor fuses the five operations.

Passes: nominally one, 2MN. Inductor decides what to do with a row: it keeps a narrow
one on chip and reads a wide one again.
On chip: nominally the row, N elements.
Under max-autotune Inductor times several sizes of block for each kernel and keeps the fastest. It
does so here without the CUDA graphs that belong to that mode: their results lie in memory that the
next call overwrites, their inputs are copied first, and a graph timer cannot capture a graph.
Source: `torch.compile` with `dynamic=False`, one static graph a shape.
"""

from __future__ import annotations

import types
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

import torch
from typing_extensions import override

from ..kernel import Kernel, NotCompiled, one_of
from ..traffic import M, N, Traffic
from .naive import five_operations
from .operation import SOFTMAX
from .tiles import Accumulate, statistics_dtype

MODES = ("default", "max-autotune-no-cudagraphs")


@dataclass(frozen=True)
class Compiled(Kernel):
    """The five operations of `naive`, compiled afresh for each shape.

    Attributes:
        mode: Inductor's, ``"default"`` or ``"max-autotune-no-cudagraphs"``.
        accumulate: dtype of the sum, ``"float32"`` or ``"float64"``.
    """

    operation = SOFTMAX
    backend = "inductor"
    dtypes = (*Kernel.dtypes, torch.float64)
    moves = Traffic(reads=M * N, writes=M * N)
    on_chip = N

    mode: Annotated[str, one_of(*MODES)] = "default"
    accumulate: Accumulate = "float32"

    @override
    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """See `Kernel`. It compiles at every call; `prepare` does so once.

        Raises:
            NotCompiled: see `prepare`.
        """
        return self.prepare(x)(x)

    def prepare(self, x: torch.Tensor) -> Callable[[torch.Tensor], torch.Tensor]:
        """The function compiled for inputs with the shape, strides and dtype of ``x``.

        Raises:
            NotCompiled: PyTorch ran the operations eagerly instead of compiling them. The
                returned function raises where it would have to compile again.
        """
        if x.numel() == 0:
            return torch.empty_like
        statistics = statistics_dtype(x.dtype, self.accumulate)
        return compile_once(five_operations, self.mode, x, constants=(statistics,))


def compile_once(
    function: Callable[..., Any], mode: str, *inputs: torch.Tensor, constants: tuple[Any, ...] = ()
) -> Callable[..., Any]:
    """``function`` of tensors and ``constants`` as one static graph for inputs like these.

    For inputs without elements it is the function itself, uncompiled.

    Args:
        function: A Python function; a copy of it is compiled.
        mode: One of `MODES`.
        inputs: The first has the shape ``(M, N)``.
        constants: The function's other arguments.

    Raises:
        NotCompiled: PyTorch ran the function eagerly instead of compiling it. The returned
            function raises where it would have to compile again.
    """
    if inputs[0].numel() == 0:
        return function
    backend = _OneGraph(mode)
    compiled = torch.compile(_copy_of(function), backend=backend, dynamic=False, fullgraph=True)

    def call(*inputs: torch.Tensor) -> Any:
        # Inductor may lay the result out like its input
        y = compiled(*inputs, *constants)
        return y.contiguous() if isinstance(y, torch.Tensor) else tuple(t.contiguous() for t in y)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        call(*inputs)
    if not backend.compiled:
        raise NotCompiled("torch.compile ran its function eagerly; is it switched off?")
    return call


class _OneGraph:
    """Inductor for one graph: a second one means an input unlike the first, and is refused."""

    def __init__(self, mode: str) -> None:
        self.mode = mode
        self.compiled = False

    def __call__(self, graph: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> Any:
        from torch._inductor.compile_fx import compile_fx  # half a second, for this variant only

        if self.compiled:
            raise NotCompiled("compiled for another shape, strides or dtype; prepare it for these")
        options = torch._inductor.list_mode_options(self.mode)
        result = compile_fx(graph, inputs, config_patches=options)
        self.compiled = True
        return result


def _copy_of(function: types.FunctionType | Callable[..., Any]) -> Callable[..., Any]:
    # Dynamo keeps its compiled code with the code object, and after eight shapes runs eagerly
    # running eager. With a code object for each shape it never gets there, and the compiled code
    # is freed with the function.
    assert isinstance(function, types.FunctionType)
    return types.FunctionType(function.__code__.replace(), function.__globals__)
