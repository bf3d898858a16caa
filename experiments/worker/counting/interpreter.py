"""Requests of Triton kernels: the unchanged kernel, run by Triton's interpreter."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Container, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from types import CodeType, FrameType
from typing import Any
from unittest.mock import patch

import numpy as np

from experiments.worker.counting.requests import Kind, Recorder, Values


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


class Variables:
    """Reads a program's variables from the frames in which Triton's interpreter runs it.

    A kernel is interpreted as the Python function that it is, so that its running maximum is a
    local variable of that function. What a request leaves behind is seen at the program's next
    one, or when it has ended: a frame that is held keeps its variables after it has returned.
    """

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._kernel: FrameType | None = None
        self._noted = 0

    def before_request(self, codes: Container[CodeType]) -> None:
        """Called within an access: the requests made so far have left what is there now.

        Args:
            codes: Of the functions that are interpreted: the kernel and what it calls.
        """
        frames: list[FrameType] = []
        frame: FrameType | None = sys._getframe(1)
        while frame is not None:
            if frame.f_code in codes:
                frames.append(frame)
            frame = frame.f_back
        kernel = frames[-1] if frames else None
        if kernel is not self._kernel:
            self.program_ended()
        self._note_state(frames)
        self._kernel = kernel

    def program_ended(self) -> None:
        """The last requests of a program have left what it had as it returned."""
        self._note_state([self._kernel] if self._kernel else [])
        self._kernel = None

    def _note_state(self, frames: list[FrameType]) -> None:
        state: dict[str, Any] = {}
        for frame in reversed(frames):  # the kernel's own variable before a callee's of that name
            for name, value in _floating(frame.f_locals):
                state.setdefault(name, value)
        for request in self._recorder.requests[self._noted :]:
            request.state.update(state)
        self._noted = len(self._recorder.requests)


def _floating(variables: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Scalars as floats, blocks as arrays, in the order of the function's variables."""
    found: list[tuple[str, Any]] = []
    for name, value in variables.items():
        handle = getattr(value, "handle", None)
        dtype = getattr(handle, "dtype", None)
        if hasattr(dtype, "is_floating") and value.dtype.is_floating():
            values = as_floats(handle)
            found.append((name, values if value.type.is_block() else float(values.item())))
    return found


def as_floats(handle: Any) -> Values:
    """The values of one of the interpreter's tensors, whose bfloat16 are kept as bits."""
    data = np.asarray(handle.data)
    if str(handle.get_element_ty()) == "bf16":
        data = (data.astype(np.uint32) << 16).view(np.float32)
    return data.astype(np.float64)
