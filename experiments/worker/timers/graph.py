"""Replays of a CUDA graph in which the kernel follows itself: no launch is in its time."""

from collections.abc import Callable

import torch

from experiments.worker import clock
from experiments.worker.timers import CannotTime, Protocol, Sampling, Subject, collect
from kernels.kernel import Tensors

MAX_BUFFERS = 2048
LEAST_BUFFERS = 12  # the least number of buffers in a rotation, if they fit
MOST_BYTES = 4 << 30  # that so many buffers may take, inputs and outputs
PART_OF_MEMORY = 8  # and no more than this part of a small card's memory: an eighth
REPLAY_US = 500.0  # a replay this long makes the cost of starting it small
MAX_VISITS = 20


def sample(subject: Subject, protocol: Protocol) -> Sampling:
    """Replays of a CUDA graph that calls the kernel on buffers in rotation.

    Cold means that the buffers together exceed three times L2, so that each call finds its own
    long evicted; a sample is one replay's time divided by its calls.

    Raises:
        CannotTime: a cold rotation would need more than 2048 buffers, or the kernel overwrites its
            input: a replay would read its own answers.
    """
    if subject.overwritten is not None:
        raise CannotTime(
            "a replay would give the kernel its own answers, since it overwrites its input; use "
            "timing=events or timing=chain"
        )
    call, buffers = subject.call, 1
    if protocol.cache == "cold":
        buffers = cold_buffers(subject.moved_bytes, subject.cache_bytes)
    inputs = [subject.inputs, *(subject.make(i) for i in range(1, buffers))]
    visits, outputs = visits_of(buffers, lambda: call(*subject.inputs)), list[Tensors]()

    def run() -> None:
        outputs[:] = [call(*given) for given in inputs]

    graph = captured(visits, run)
    sampling = collect(lambda _: [duration_us(graph.replay) / (visits * buffers)], protocol)
    timed = subject.replayed(graph.replay, inputs, outputs)
    graph.reset()
    return sampling._replace(timed=timed)


def captured(visits: int, run: Callable[[], object]) -> torch.cuda.CUDAGraph:
    """A CUDA graph of ``visits`` calls of ``run``, replayed once."""
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(visits):
            run()
    graph.replay()
    clock.synchronize()
    return graph


def cold_buffers(moved: int, cache_bytes: int) -> int:
    """How many buffers a cold rotation takes; raises `CannotTime` if more than 2048.

    With few buffers the time depends on where in memory they lie, so there are at least twelve, or
    as many as 4 GiB hold, on a small card an eighth of its memory. ``moved`` are the bytes that a
    call reads and writes.
    """
    memory_bytes = torch.cuda.get_device_properties(0).total_memory
    moved, most = max(moved, 1), min(MOST_BYTES, memory_bytes // PART_OF_MEMORY)
    buffers = max(3 * cache_bytes // moved + 1, min(LEAST_BUFFERS, most // moved))
    if buffers > MAX_BUFFERS:
        raise CannotTime(
            f"a cold rotation of {moved} bytes a call takes {buffers} buffers to exceed three "
            f"times L2, more than {MAX_BUFFERS}; use timing=events, or timing=graph with "
            "timing.cache=warm"
        )
    return buffers


def visits_of(buffers: int, link: Callable[[], object], hold: int = 0) -> int:
    """How many times a graph runs through a rotation, from the time of one link.

    The link runs twice on a side stream: lazy initialisation is not allowed during capture.
    ``hold`` are the cycles to spin before the second run, so that the host stays ahead.
    """
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        link()
        if hold:
            clock.spin(hold)
        rough_us = duration_us(link)
    torch.cuda.current_stream().wait_stream(side)
    return min(max(int(REPLAY_US / (rough_us * buffers)), 1), MAX_VISITS)


def duration_us(work: Callable[[], object]) -> float:
    """The card's time between two events around ``work``."""
    start, end = (clock.Event(enable_timing=True) for _ in range(2))
    clock.record(start)
    work()
    clock.record(end)
    clock.synchronize()
    return clock.elapsed_us(start, end)
