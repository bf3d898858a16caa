"""Requests of Triton kernels: the unchanged kernel, run by Triton's interpreter."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

import numpy as np

from experiments.worker.counting.requests import Kind, Recorder


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

    def noted(self: Any, kind: Kind, pointers: Any, mask: Any = None) -> None:
        width = max(1, pointers.get_element_ty().primitive_bitwidth // 8)
        addresses = np.asarray(pointers.data).astype(np.int64).ravel()
        if mask is not None:
            active = np.broadcast_to(mask.data, np.shape(pointers.data)).ravel()
            addresses = addresses[active.astype(bool)]
        (x, y, z), (across, down, _) = self.grid_idx, self.grid_dim
        recorder.lanes(kind, x + across * (y + down * z), addresses, width)

    def load(self: Any, pointers: Any, mask: Any, *rest: Any, **options: Any) -> Any:
        noted(self, "load", pointers, mask)
        return masked_load(self, pointers, mask, *rest, **options)

    def store(self: Any, pointers: Any, value: Any, mask: Any, *rest: Any, **options: Any) -> Any:
        noted(self, "store", pointers, mask)
        return masked_store(self, pointers, value, mask, *rest, **options)

    def rmw(self: Any, how: Any, pointers: Any, value: Any, mask: Any, *rest: Any) -> Any:
        noted(self, "load", pointers, mask)
        noted(self, "store", pointers, mask)
        return atomic_rmw(self, how, pointers, value, mask, *rest)

    def cas(self: Any, pointers: Any, *rest: Any) -> Any:
        noted(self, "load", pointers)
        noted(self, "store", pointers)
        return atomic_cas(self, pointers, *rest)

    def launch(self: Any, *arguments: Any, **options: Any) -> Any:
        recorder.interpreting = True
        try:
            return run(self, *arguments, **options)
        finally:
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
