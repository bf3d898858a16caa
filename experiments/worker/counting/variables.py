"""The floating-point variables of an interpreted kernel: what it keeps between two requests."""

from __future__ import annotations

import sys
from collections.abc import Container, Mapping
from types import CodeType, FrameType
from typing import Any

import numpy as np

from experiments.worker.counting.requests import Recorder, Values


class Variables:
    """Reads a program's variables from the frames in which Triton's interpreter runs it.

    A kernel is interpreted as the Python function that it is, so that its running maximum is a
    local variable of that function. What a request leaves behind is seen at the program's next
    one, or when it has ended: a frame that is held keeps its variables after it has returned.
    """

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._kernel: FrameType | None = None
        self._told = 0

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
        self._tell(frames)
        self._kernel = kernel

    def program_ended(self) -> None:
        """The last requests of a program have left what it had as it returned."""
        self._tell([self._kernel] if self._kernel else [])
        self._kernel = None

    def _tell(self, frames: list[FrameType]) -> None:
        state: dict[str, Any] = {}
        for frame in reversed(frames):  # the kernel's own variable before a callee's of that name
            for name, value in _floating(frame.f_locals):
                state.setdefault(name, value)
        for request in self._recorder.requests[self._told :]:
            request.state.update(state)
        self._told = len(self._recorder.requests)


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
