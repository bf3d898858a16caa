"""What Triton launched: programs, warps, registers, shared memory and spills of a call."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

# Programs, and the compiled kernel; None where Triton's interpreter ran them.
Launch = tuple[int, Any]


def fields_of(launches: Sequence[Launch]) -> dict[str, Any]:
    """The row's launch fields, of the launch with the most programs; empty for none.

    Of interpreted programs the only one is ``backend``.
    """
    if not launches:
        return {}
    programs, kernel = max(launches, key=lambda launch: launch[0])
    if kernel is None:
        return {"backend": "interpreter"}
    metadata = getattr(kernel, "metadata", None)
    return {
        "programs": programs,
        "warps": getattr(metadata, "num_warps", None),
        "registers": getattr(kernel, "n_regs", None),
        "shared_bytes": getattr(metadata, "shared", None),
        "spills": getattr(kernel, "n_spills", None),
    }


@contextmanager
def recorded() -> Iterator[list[Launch]]:
    """Watches every Triton launch inside the block, whoever wrote the kernel.

    Triton's launch hooks do not give the grid, so its ``run`` is wrapped for the time being, and
    so is the way to a compiled kernel that libraries keep for themselves; nothing of it remains
    when a call is timed.
    """
    launches: list[Launch] = []
    try:
        from triton.compiler import CompiledKernel
        from triton.runtime.interpreter import InterpretedFunction
        from triton.runtime.jit import JITFunction
    except ImportError:
        yield launches
        return
    original, kept = JITFunction.run, CompiledKernel.__getitem__
    interpreted = InterpretedFunction.run

    def run(self: Any, *arguments: Any, grid: Any, warmup: bool, **options: Any) -> Any:
        sizes: list[int] = []

        def noted(meta: Any) -> tuple[int, ...]:
            sizes[:] = grid(meta) if callable(grid) else grid
            return tuple(sizes)

        kernel = original(self, *arguments, grid=noted, warmup=warmup, **options)
        if not warmup and kernel is not None:
            launches.append((math.prod(sizes), kernel))
        return kernel

    def interpret(self: Any, *arguments: Any, **options: Any) -> Any:
        launches.append((0, None))
        return interpreted(self, *arguments, **options)

    def by_grid(self: Any, grid: Any) -> Any:
        launches.append((math.prod(grid), self))
        return kept(self, grid)

    with (
        patch.object(JITFunction, "run", run),
        patch.object(InterpretedFunction, "run", interpret),
        patch.object(CompiledKernel, "__getitem__", by_grid),
    ):
        yield launches
