"""Three ways to time a call: CUDA events, replays of a CUDA graph, the host's clock.

Each returns one sample after another; when to stop is decided in one place, `collect`. Times are
in microseconds.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from experiments.statistics import stop_reason
from experiments.worker.flush import Flush

Call = Callable[[torch.Tensor], torch.Tensor]

EVENTS_A_BATCH = 10
GRAPH_MAX_BUFFERS = 2048
GRAPH_MIN_CALLS = 20


class CannotTime(Exception):
    """The asked protocol has no meaning for this point; the message says why."""


@dataclass(frozen=True)
class Protocol:
    """How to sample one point; the fields are those of the configuration's timing group."""

    timer: str
    cache: str
    warmup: int
    min_samples: int
    max_samples: int
    precision: float
    sampling_limit_s: float


@dataclass
class Sampling:
    """All samples of a point, why they ended, and the buffers that were timed."""

    samples_us: list[float]
    stop_reason: str
    timed: list[tuple[torch.Tensor, torch.Tensor]]


def collect(batch: Callable[[], list[float]], protocol: Protocol) -> tuple[list[float], str]:
    """Takes batches until the stopping rule is met; half the limit is left for checking."""
    end = time.perf_counter() + protocol.sampling_limit_s / 2
    samples: list[float] = []
    while True:
        samples += batch()
        reason = stop_reason(
            samples,
            min_samples=protocol.min_samples,
            max_samples=protocol.max_samples,
            precision=protocol.precision,
            out_of_time=time.perf_counter() > end,
        )
        if reason is not None:
            return samples, reason


def events(call: Call, x: torch.Tensor, flush: Flush | None, protocol: Protocol) -> Sampling:
    """CUDA events around each call. They carry about 3 µs of launch cost on an H200.

    The queue is held back by a spinning kernel for as long as enqueueing one call takes, so that
    the window holds the call's work on the card and not the host's time to launch it.
    """
    hold = _cycles(_enqueue_seconds(call, x))
    y = [call(x)]

    def one() -> tuple[Any, Any]:
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda._sleep(hold)
        if flush is not None:
            flush()
        y.clear()  # the call may have the block of the last answer again
        start.record()
        y.append(call(x))
        end.record()
        return start, end

    def batch() -> list[float]:
        pairs = [one() for _ in range(EVENTS_A_BATCH)]
        torch.cuda.synchronize()
        return [start.elapsed_time(end) * 1e3 for start, end in pairs]

    for _ in range(protocol.warmup):
        one()
    torch.cuda.synchronize()
    samples, reason = collect(batch, protocol)
    return Sampling(samples, reason, [(x, y[0])])


def graph(
    call: Call, make: Callable[[int], torch.Tensor], cache_bytes: int, protocol: Protocol
) -> Sampling:
    """Replays of a CUDA graph that calls the kernel on buffers in rotation.

    Cold means that the buffers together exceed three times L2, so that each call finds its own
    long evicted; a sample is one replay's time divided by its calls.

    Args:
        call: The prepared kernel.
        make: Makes the i-th input.
        cache_bytes: The device's L2.
        protocol: ``cache`` warm takes a single buffer.

    Raises:
        CannotTime: a cold rotation would need more than 2048 buffers.
    """
    first = make(0)
    buffers = 1
    if protocol.cache == "cold":
        moved = 2 * first.numel() * first.element_size()
        buffers = 3 * cache_bytes // max(moved, 1) + 1
        if buffers > GRAPH_MAX_BUFFERS:
            raise CannotTime(
                f"a cold rotation of {moved} bytes a call takes {buffers} buffers to exceed three "
                f"times L2, more than {GRAPH_MAX_BUFFERS}; use timing=events or timing.cache=warm"
            )
    inputs = [first, *(make(i) for i in range(1, buffers))]
    visits = max(-(-GRAPH_MIN_CALLS // buffers), 1)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        call(first)  # lazy initialisation is not allowed during capture
    torch.cuda.current_stream().wait_stream(side)
    captured = torch.cuda.CUDAGraph()
    outputs: list[torch.Tensor] = []
    with torch.cuda.graph(captured):
        for _ in range(visits):
            outputs = [call(x) for x in inputs]

    def batch() -> list[float]:
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        captured.replay()
        end.record()
        torch.cuda.synchronize()
        return [start.elapsed_time(end) * 1e3 / (visits * buffers)]

    for _ in range(max(protocol.warmup, 1)):
        captured.replay()
    torch.cuda.synchronize()
    samples, reason = collect(batch, protocol)
    # the answers live in the graph's own memory, which goes with it
    timed = [(inputs[i], outputs[i].clone()) for i in {0, len(inputs) // 2, len(inputs) - 1}]
    captured.reset()
    return Sampling(samples, reason, timed)


def host(call: Call, x: torch.Tensor, flush: Flush | None, protocol: Protocol) -> Sampling:
    """The host's monotonic clock around each call; on CUDA it includes launch and waiting."""
    wait = torch.cuda.synchronize if x.is_cuda else _nothing
    y = [call(x)]

    def batch() -> list[float]:
        if flush is not None:
            flush()
        y.clear()
        wait()
        start = time.perf_counter_ns()
        y.append(call(x))
        wait()
        return [(time.perf_counter_ns() - start) / 1e3]

    for _ in range(protocol.warmup):
        batch()
    samples, reason = collect(batch, protocol)
    return Sampling(samples, reason, [(x, y[0])])


def _nothing() -> None:
    pass


def _enqueue_seconds(call: Call, x: torch.Tensor) -> float:
    """How long the host takes to hand one call over, the shortest of three."""
    seconds = []
    for _ in range(3):
        torch.cuda.synchronize()
        start = time.perf_counter()
        call(x)
        seconds.append(time.perf_counter() - start)
    torch.cuda.synchronize()
    return min(seconds)


def _cycles(enqueue_s: float) -> int:
    """Clock cycles to spin so that the host is ahead; 2 GHz is above any card's clock today."""
    return int(1.5 * enqueue_s * 2e9) + 20_000
