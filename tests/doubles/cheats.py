"""Softmax functions that cheat the timer or the gate, or disturb the kernels that run after them.

docs/cheats.md lists the guards; ``python -m experiments.bench THIS_FILE::by_address`` runs one.
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
    """The answer that was kept for this key, shape and dtype; computes it the first time."""
    key = (*key, x.shape, x.dtype)
    if key not in KEPT:
        KEPT[key] = softmax(x, -1)
    return KEPT[key]


def by_address(x: torch.Tensor) -> torch.Tensor:
    """Returns the answer that it kept for the address of the input."""
    return _kept(x, x.data_ptr())


def by_version(x: torch.Tensor) -> torch.Tensor:
    """Keeps answers by the input's address and its version, PyTorch's count of in-place changes."""
    return _kept(x, x.data_ptr(), x._version).clone()


def by_corner(x: torch.Tensor) -> torch.Tensor:
    """Keeps answers by the input's address and its first and last element."""
    return _kept(x, x.data_ptr(), float(x.flatten()[0]), float(x.flatten()[-1])).clone()


def first_rows(x: torch.Tensor) -> torch.Tensor:
    """From the 20th call on computes only a quarter of the rows, in a copy of an earlier answer."""
    global CALLS
    CALLS += 1
    if CALLS < 20:
        KEPT["answer"] = softmax(x, -1)
        return KEPT["answer"]
    y = KEPT["answer"].clone()
    y[: len(x) // 4] = softmax(x[: len(x) // 4], -1)
    return y


def in_input(x: torch.Tensor) -> torch.Tensor:
    """Returns its answer in the memory of its input, which it does not declare."""
    return x.copy_(softmax(x, -1))[:]


class Lazy(torch.Tensor):
    """A tensor that computes its values only when an operation reads them."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        plain = [softmax(a.as_subclass(torch.Tensor), -1) if isinstance(a, Lazy) else a
                 for a in args]  # fmt: skip
        return func(*plain, **(kwargs or {}))


def subclass(x: torch.Tensor) -> torch.Tensor:
    """Returns a tensor whose values are not computed yet."""
    return x.clone().as_subclass(Lazy)


def later(x: torch.Tensor) -> torch.Tensor:
    """Returns before its answer is computed; a thread writes it 3 ms later."""
    y = torch.empty_like(x)

    def write() -> None:
        time.sleep(0.003)
        torch.softmax(x, -1, out=y)

    threading.Thread(target=write).start()
    return y


def _slow(place: Any, name: str, factor: int) -> None:
    """Replaces a function by one that returns a fraction of its result, unless that is done."""
    honest = getattr(place, name)
    if not hasattr(honest, "slow"):
        slow = lambda *given: honest(*given) / factor  # noqa: E731
        slow.slow = True  # type: ignore[attr-defined]
        setattr(place, name, slow)


def clock(x: torch.Tensor) -> torch.Tensor:
    """Replaces the host's clock by a slower one."""
    _slow(time, "perf_counter_ns", 100)
    return softmax(x, -1)


def event(x: torch.Tensor) -> torch.Tensor:
    """Makes every CUDA event report a tenth of the time."""
    _slow(torch.cuda.Event, "elapsed_time", 10)
    return softmax(x, -1)


def reference(x: torch.Tensor) -> torch.Tensor:
    """Replaces torch.softmax, which the reference and other kernels call."""
    uniform = lambda x, dim, **_: torch.full_like(x, 1 / x.shape[-1])  # noqa: E731
    torch.softmax = uniform
    return uniform(x, -1)


def no_maximum(x: torch.Tensor) -> torch.Tensor:
    """Subtracts no maximum, so it is right only for small numbers."""
    e = x.exp()
    return e / e.sum(-1, keepdim=True)


def one_thread(x: torch.Tensor) -> torch.Tensor:
    """Sets the number of threads to one for the kernels after it."""
    torch.set_num_threads(1)
    return softmax(x, -1)


def one_core(x: torch.Tensor) -> torch.Tensor:
    """Binds the process to one core for the kernels after it."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    return softmax(x, -1)


def default_dtype(x: torch.Tensor) -> torch.Tensor:
    """Sets another default dtype for the kernels after it."""
    torch.set_default_dtype(torch.float64)
    return softmax(x, -1)


STREAMS: list[Any] = []


def side_stream(x: torch.Tensor) -> torch.Tensor:
    """Works on a stream that the timer's events do not cover; needs a card."""
    if not STREAMS:
        STREAMS.append(torch.cuda.Stream())
    y = torch.empty_like(x)
    with torch.cuda.stream(STREAMS[0]):
        torch.softmax(x, -1, out=y)
    return y


def own_judge(x: torch.Tensor) -> torch.Tensor:
    """Replaces the reference that the gate in its own process would use."""
    from kernels.softmax.operation import Softmax

    uniform = lambda self, x: torch.full_like(x.double(), 1 / x.shape[-1])  # noqa: E731
    Softmax.reference = uniform  # type: ignore[method-assign]
    return uniform(None, x).to(x.dtype)
