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
    run = function.run

    def noted(self: Any, kind: Kind, pointers: Any, mask: Any) -> None:
        width = max(1, pointers.get_element_ty().primitive_bitwidth // 8)
        active = np.broadcast_to(True if mask is None else mask.data, np.shape(pointers.data))
        addresses = np.asarray(pointers.data).astype(np.int64).ravel()
        recorder.lanes(kind, addresses[active.ravel().astype(bool)], width)

    def wrapped(name: str, kinds: tuple[Kind, ...], pointers_at: int, mask_at: int | None) -> Any:
        original = getattr(builder, name)

        def access(self: Any, *arguments: Any, **options: Any) -> Any:
            mask = None if mask_at is None else arguments[mask_at]
            for kind in kinds:
                noted(self, kind, arguments[pointers_at], mask)
            return original(self, *arguments, **options)

        return access

    def launch(self: Any, *arguments: Any, **options: Any) -> Any:
        recorder.interpreting = True
        try:
            return run(self, *arguments, **options)
        finally:
            recorder.interpreting = False

    with ExitStack() as patches:
        for owner, name, replacement in (
            (builder, "create_masked_load", wrapped("create_masked_load", ("load",), 0, 1)),
            (builder, "create_masked_store", wrapped("create_masked_store", ("store",), 0, 2)),
            (builder, "create_atomic_rmw", wrapped("create_atomic_rmw", ("load", "store"), 1, 3)),
            (
                builder,
                "create_atomic_cas",
                wrapped("create_atomic_cas", ("load", "store"), 0, None),
            ),
            (function, "run", launch),
        ):
            patches.enter_context(patch.object(owner, name, replacement))
        yield
