"""Fakes CUDA's streams, events and graphs on a CPU; each operation runs at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from experiments.worker import clock


class Card(TorchDispatchMode):
    """A fake card: in this mode a PyTorch operation advances its clock by ``us_of(name)`` µs."""

    def __init__(self, us_of: Callable[[str], float]) -> None:
        super().__init__()
        self.now_us, self._us_of = 0.0, us_of
        self.tape: list[Any] | None = None  # the operations of the graph that is being captured

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        self.now_us += self._us_of(str(func))
        if self.tape is not None:
            self.tape.append((func, args, kwargs or {}, result))
        return result

    def install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Replaces the parts of `torch.cuda` and `clock` that timers use by this card's."""
        card = self

        class Event:
            def __init__(self, enable_timing: bool) -> None:
                assert enable_timing

            def record(self) -> None:
                self.at_us = card.now_us

            def query(self) -> bool:
                return False  # the host is always ahead

            def elapsed_time(self, end: Event) -> float:
                return (end.at_us - self.at_us) / 1e3

        class Graph:
            def __init__(self) -> None:
                self.tape: list[Any] = []

            def replay(self) -> None:
                for func, args, kwargs, result in self.tape:
                    result.copy_(func(*args, **kwargs))  # into the memory of the first result

            def reset(self) -> None:
                self.tape.clear()

        @contextmanager
        def capture(graph: Graph) -> Iterator[None]:
            card.tape = graph.tape
            yield
            card.tape = None

        idle = SimpleNamespace(wait_stream=lambda _: None)
        for name, part in {
            "Event": Event, "record": Event.record, "query": Event.query,
            "elapsed_ms": Event.elapsed_time, "spin": lambda _: None, "synchronize": lambda: None,
        }.items():  # fmt: skip
            monkeypatch.setattr(clock, name, part)
        for name, part in {
            "CUDAGraph": Graph, "graph": capture, "stream": nullcontext,
            "Stream": lambda: idle, "current_stream": lambda: idle,
            "get_device_properties": lambda _: SimpleNamespace(total_memory=1 << 40),
        }.items():  # fmt: skip
            monkeypatch.setattr(torch.cuda, name, part)
