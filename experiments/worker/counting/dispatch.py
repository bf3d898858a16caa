"""Requests of PyTorch's operations, as its dispatcher sees them.

An operation reads each tensor it is given once and writes each tensor it makes once. Views move
nothing; what an operation overwrites (``out=``, ``copy_``, ``fill_``) it only writes, what it
updates in place it reads and writes. Operations that touch a part of a tensor count as if they
touched it whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from experiments.worker.counting.requests import Recorder, Values

OVERWRITERS = ("copy_", "fill_", "zero_", "normal_", "uniform_", "random_", "exponential_")


class Operations(TorchDispatchMode):
    """Takes down every operation executed while it is active."""

    def __init__(self, recorder: Recorder) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._recorder = recorder

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Executes an operation and notes what it moved."""
        if self._recorder.interpreting:
            return func(*args, **(kwargs or {}))
        name = func._schema.name.partition("::")[2]
        loads, stores = self._asked(name, func._schema, args, kwargs or {})
        before = [(tensor, self._recorder.values_in(tensor)) for tensor in loads]
        result = func(*args, **(kwargs or {}))
        self._note(name, func._schema, before, stores, result)
        return result

    def _asked(
        self, name: str, schema: Any, args: Sequence[Any], kwargs: dict[str, Any]
    ) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
        """Of the tensors that an operation is given those that it reads, and those it writes."""
        given = dict(zip((a.name for a in schema.arguments), args, strict=False)) | kwargs
        loads: list[torch.Tensor] = []
        stores: list[torch.Tensor] = []
        for argument in schema.arguments:
            written = argument.alias_info is not None and argument.alias_info.is_write
            overwritten = written and (argument.is_out or name in OVERWRITERS)
            for tensor in _tensors(given.get(argument.name)):
                if self._recorder.buffer(tensor) is None:  # it was made before the call
                    self._recorder.meet(argument.name, tensor)
                stores += [tensor] if written else []
                loads += [] if overwritten else [tensor]
        if name.startswith("new_") or name.endswith("_like"):
            loads = []  # of a model for shape and dtype nothing is read
        return loads, stores

    def _note(
        self,
        name: str,
        schema: Any,
        loads: Sequence[tuple[torch.Tensor, Values | None]],
        stores: list[torch.Tensor],
        result: Any,
    ) -> None:
        recorder = self._recorder
        results = result if isinstance(result, tuple | list) else (result,)
        for index, one in enumerate(results):
            for tensor in _tensors(one):
                if recorder.buffer(tensor) is None:
                    part = schema.returns[min(index, len(schema.returns) - 1)].name
                    recorder.meet(f"{name}.{part}" if part else name, tensor)
                    stores += [] if "empty" in name else [tensor]
        if not stores and any(True for _ in _tensors(results)):
            return  # a view, or memory that nothing has been written to yet
        for tensor, values in loads:
            recorder.whole("load", tensor, name, values)
        for tensor in stores:
            recorder.whole("store", tensor, name, recorder.values_in(tensor))
        recorder.launches += bool(loads or stores)


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, tuple | list):
        for one in value:
            yield from _tensors(one)
