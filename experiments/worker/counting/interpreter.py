"""Requests of Triton kernels: the unchanged kernel, run by Triton's interpreter."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

import numpy as np

from experiments.worker.counting.requests import Kind, Recorder, Values
from experiments.worker.counting.variables import Variables, as_floats


@contextmanager
def interpreted(recorder: Recorder) -> Iterator[None]:
    """Takes down the loads, stores and atomics of every Triton kernel launched inside the block.

    All forms of access (block pointers and descriptors too) end in the few methods of the
    interpreter's builder that are wrapped for the time being. An atomic is a load and a store.
    """
    try:
        runtime = importlib.import_module("triton.runtime.interpreter")
    except ImportError:
        yield
        return
    builder, function = runtime.InterpreterBuilder, runtime.InterpretedFunction
    masked_load, masked_store = builder.create_masked_load, builder.create_masked_store
    atomic_rmw, atomic_cas = builder.create_atomic_rmw, builder.create_atomic_cas
    run = function.run
    variables = Variables(recorder)

    def watch() -> None:
        if recorder.watching:
            variables.before_request({fn.__code__ for fn in function.rewritten_fn.values()})

    def noted(self: Any, kind: Kind, pointers: Any, value: Any, mask: Any = None) -> None:
        width = max(1, pointers.get_element_ty().primitive_bitwidth // 8)
        shape = np.shape(pointers.data)
        active = np.broadcast_to(True if mask is None else mask.data, shape).ravel().astype(bool)
        addresses = np.asarray(pointers.data).astype(np.int64).ravel()[active]
        values: Values | None = None
        if recorder.watching and value is not None:
            values = np.broadcast_to(as_floats(value), shape).ravel()[active]
        (x, y, z), (across, down, _) = self.grid_idx, self.grid_dim
        recorder.lanes(kind, x + across * (y + down * z), addresses, width, values)

    def load(self: Any, pointers: Any, mask: Any, *rest: Any, **options: Any) -> Any:
        watch()
        value = masked_load(self, pointers, mask, *rest, **options)
        noted(self, "load", pointers, value, mask)
        return value

    def store(self: Any, pointers: Any, value: Any, mask: Any, *rest: Any, **options: Any) -> Any:
        watch()
        noted(self, "store", pointers, value, mask)
        return masked_store(self, pointers, value, mask, *rest, **options)

    def rmw(self: Any, how: Any, pointers: Any, value: Any, mask: Any, *rest: Any) -> Any:
        watch()
        old = atomic_rmw(self, how, pointers, value, mask, *rest)
        noted(self, "load", pointers, old, mask)
        noted(self, "store", pointers, None, mask)  # what it made of the two, nobody here knows
        return old

    def cas(self: Any, pointers: Any, *rest: Any) -> Any:
        watch()
        old = atomic_cas(self, pointers, *rest)
        noted(self, "load", pointers, old)
        noted(self, "store", pointers, None)
        return old

    def launch(self: Any, *arguments: Any, **options: Any) -> Any:
        recorder.interpreting = True
        try:
            return run(self, *arguments, **options)
        finally:
            variables.program_ended()
            recorder.interpreting = False
            recorder.launches += 1

    with ExitStack() as patches:
        for owner, name, replacement in (
            (builder, "create_masked_load", load),
            (builder, "create_masked_store", store),
            (builder, "create_atomic_rmw", rmw),
            (builder, "create_atomic_cas", cas),
            (function, "run", launch),
        ):
            patches.enter_context(patch.object(owner, name, replacement))
        yield
