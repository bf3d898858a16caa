"""Formulas of PyTorch's operations through `torch.compile`.

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
from typing import Annotated, Any, ClassVar

import torch
from typing_extensions import override

from .device import Device
from .kernel import Kernel, NotCompiled, Shape, one_of
from .traffic import N, Traffic

MODES = ("default", "max-autotune-no-cudagraphs")


@dataclass(frozen=True)
class CompiledFormula(Kernel):
    """A formula through `torch.compile`, afresh for each shape."""

    backend = "inductor"
    on_chip = N
    formula: ClassVar[Callable[..., Any]]  # of the operation's inputs

    mode: Annotated[str, one_of(*MODES)] = "default"

    @override
    def prepare(self, *inputs: torch.Tensor) -> Callable[..., Any]:
        """See `Kernel`; one static graph. For inputs without elements it is the formula itself.

        Raises:
            NotCompiled: PyTorch ran the formula eagerly instead of compiling it. What is returned
                raises where it would have to compile again.
        """
        formula = type(self).formula
        if inputs[0].numel() == 0:
            return formula
        assert isinstance(formula, types.FunctionType)
        # Dynamo keeps its compiled code with the code object, and after eight shapes silently runs
        # eagerly. With a code object for each shape it never gets there, and the compiled code is
        # freed with the function.
        own = types.FunctionType(formula.__code__.replace(), formula.__globals__)
        graphs: list[Any] = []

        def one_graph(graph: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> Any:
            from torch._inductor.compile_fx import compile_fx  # half a second, for this variant

            if graphs:  # a second one means an input unlike the first
                raise NotCompiled(
                    "compiled for another shape, strides or dtype; prepare it for these"
                )
            options = torch._inductor.list_mode_options(self.mode)
            graphs.append(compile_fx(graph, inputs, config_patches=options))
            return graphs[0]

        compiled = torch.compile(own, backend=one_graph, dynamic=False, fullgraph=True)

        def call(*inputs: torch.Tensor) -> Any:
            # Inductor may lay the result out like its input
            y = compiled(*inputs)
            if isinstance(y, torch.Tensor):
                return y.contiguous()
            return tuple(each.contiguous() for each in y)

        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            call(*inputs)
        if not graphs:
            raise NotCompiled("torch.compile ran its function eagerly; is it switched off?")
        return call

    @override
    def limits(self, shape: Shape, dtype: torch.dtype, device: Device) -> str | None:
        if device.kind == "cpu" and " " in torch.__file__:
            # its call of g++ quotes no path
            return "Inductor compiles C++ only where the path of PyTorch has no space"
        return None

    @override
    def traffic(self) -> Traffic:
        return self.operation.compulsory
