"""Functions that deceive a timer, a gate or their neighbours; docs/cheats.md lists the guards.

Each is a softmax: ``python -m experiments.bench tests/doubles/cheats.py::by_address``.
"""

import os
import threading
import time
from typing import Any

import torch

KEPT: dict[Any, torch.Tensor] = {}
CALLS = 0
softmax = torch.softmax


def _kept(x: torch.Tensor, *key: Any) -> torch.Tensor:
    key = (*key, x.shape, x.dtype)
    if key not in KEPT:
        KEPT[key] = softmax(x, -1)
    return KEPT[key]


def by_address(x: torch.Tensor) -> torch.Tensor:
    """Keeps an answer by the address of its input."""
    return _kept(x, x.data_ptr())


def by_address_copied(x: torch.Tensor) -> torch.Tensor:
    """The same, but each caller gets a copy."""
    return _kept(x, x.data_ptr()).clone()


def by_version(x: torch.Tensor) -> torch.Tensor:
    """Keeps an answer by address and by PyTorch's count of changes."""
    return _kept(x, x.data_ptr(), x._version).clone()


def by_corner(x: torch.Tensor) -> torch.Tensor:
    """Keeps an answer by the first and the last element."""
    return _kept(x, x.data_ptr(), float(x.flatten()[0]), float(x.flatten()[-1])).clone()


def first_rows(x: torch.Tensor) -> torch.Tensor:
    """Computes a part of the rows alone after twenty calls, in memory that held an answer."""
    global CALLS
    CALLS += 1
    if CALLS < 20:
        KEPT["answer"] = softmax(x, -1)
        return KEPT["answer"]
    y = KEPT["answer"].clone()
    y[: len(x) // 4] = softmax(x[: len(x) // 4], -1)
    return y


def in_input(x: torch.Tensor) -> torch.Tensor:
    """Gives its answer in a view of its input's memory, without saying so."""
    return x.copy_(softmax(x, -1))[:]


class Lazy(torch.Tensor):
    """Computes its values when somebody looks at them."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        plain = [softmax(a.as_subclass(torch.Tensor), -1) if isinstance(a, Lazy) else a
                 for a in args]  # fmt: skip
        return func(*plain, **(kwargs or {}))


def subclass(x: torch.Tensor) -> torch.Tensor:
    """Returns a tensor that is yet to be computed."""
    return x.clone().as_subclass(Lazy)


def later(x: torch.Tensor) -> torch.Tensor:
    """Has a thread write its answer after it has returned."""
    y = torch.empty_like(x)

    def write() -> None:
        time.sleep(0.003)
        torch.softmax(x, -1, out=y)

    threading.Thread(target=write).start()
    return y


def _slow(place: Any, name: str, factor: int) -> None:
    """Has a function give a fraction of its answer, once."""
    honest = getattr(place, name)
    if not hasattr(honest, "slow"):
        slow = lambda *given: honest(*given) / factor  # noqa: E731
        slow.slow = True  # type: ignore[attr-defined]
        setattr(place, name, slow)


def clock(x: torch.Tensor) -> torch.Tensor:
    """Puts a slower clock in place of the host's."""
    _slow(time, "perf_counter_ns", 100)
    return softmax(x, -1)


def event(x: torch.Tensor) -> torch.Tensor:
    """Has every CUDA event say a tenth of the time."""
    _slow(torch.cuda.Event, "elapsed_time", 10)
    return softmax(x, -1)


def reference(x: torch.Tensor) -> torch.Tensor:
    """Replaces the function that references and rivals call."""
    uniform = lambda x, dim, **_: torch.full_like(x, 1 / x.shape[-1])  # noqa: E731
    torch.softmax = uniform
    return uniform(x, -1)


def no_maximum(x: torch.Tensor) -> torch.Tensor:
    """Right for small numbers only."""
    e = x.exp()
    return e / e.sum(-1, keepdim=True)


def one_maximum(x: torch.Tensor) -> torch.Tensor:
    """Takes one maximum for the whole matrix."""
    e = (x - x.max()).exp()
    return e / e.sum(-1, keepdim=True)


def clamped(x: torch.Tensor) -> torch.Tensor:
    """Right where no number is larger than six."""
    return softmax(x.clamp(-6, 6), -1)


def one_thread(x: torch.Tensor) -> torch.Tensor:
    """Leaves its neighbours one thread."""
    torch.set_num_threads(1)
    return softmax(x, -1)


def one_core(x: torch.Tensor) -> torch.Tensor:
    """Leaves its neighbours one core."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    return softmax(x, -1)


def default_dtype(x: torch.Tensor) -> torch.Tensor:
    """Leaves its neighbours another default dtype."""
    torch.set_default_dtype(torch.float64)
    return softmax(x, -1)


STREAMS: list[Any] = []


def side_stream(x: torch.Tensor) -> torch.Tensor:
    """Works on a stream that the timer's events do not see; needs a card."""
    if not STREAMS:
        STREAMS.append(torch.cuda.Stream())
    y = torch.empty_like(x)
    with torch.cuda.stream(STREAMS[0]):
        torch.softmax(x, -1, out=y)
    return y


def own_judge(x: torch.Tensor) -> torch.Tensor:
    """Replaces the reference that the gate of its own process would call."""
    from kernels.softmax.operation import Softmax

    uniform = lambda self, x: torch.full_like(x.double(), 1 / x.shape[-1])  # noqa: E731
    Softmax.reference = uniform  # type: ignore[method-assign]
    return uniform(None, x).to(x.dtype)
