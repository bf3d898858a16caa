"""Times replays of a CUDA graph of many calls of the kernel, without the cost of launches."""

from collections.abc import Callable

import torch

from experiments.worker import clock
from experiments.worker.timers import CannotTime, Protocol, Sampling, Subject, collect
from kernels.kernel import Tensors

MAX_BUFFERS = 2048
LEAST_BUFFERS = 12  # in a rotation, if their inputs and outputs fit into both of the next limits
MOST_BYTES = 4 << 30
PART_OF_MEMORY = 8  # an eighth of the card's memory
REPLAY_US = 500.0  # aim for replays this long, so that the cost of starting one is small
MAX_ROTATIONS = 20


def sample(subject: Subject, protocol: Protocol) -> Sampling:
    """Replays of a CUDA graph that calls the kernel on one buffer after another, in rotation.

    A buffer is the inputs and outputs of one call. With ``cache=cold`` all buffers together exceed
    three times L2, so each call finds its own evicted. A sample is a replay's µs over its calls.

    Raises:
        CannotTime: that takes more than 2048 buffers, or the kernel overwrites its input: a replay
            would read its own answers.
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
    rotations, outputs = rotations_in_graph(buffers, lambda: call(*subject.inputs)), list[Tensors]()

    def run() -> None:
        outputs[:] = [call(*given) for given in inputs]

    graph = captured(rotations, run)
    sampling = collect(lambda _: [duration_us(graph.replay) / (rotations * buffers)], protocol)
    timed = subject.replayed(graph.replay, inputs, outputs)
    graph.reset()
    return sampling._replace(timed=timed)


def captured(rotations: int, run: Callable[[], object]) -> torch.cuda.CUDAGraph:
    """A CUDA graph that runs the work of ``run`` this many times; it has been replayed once."""
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(rotations):
            run()
    graph.replay()
    clock.synchronize()
    return graph


def cold_buffers(moved: int, cache_bytes: int) -> int:
    """The number of buffers in a cold rotation; raises `CannotTime` if it exceeds 2048.

    With few buffers the time depends on where in memory they lie, so there are at least twelve, or
    as many as 4 GiB hold, on a small card an eighth of its memory. ``moved`` are the bytes that a
    call reads and writes: the size of a buffer.
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


def rotations_in_graph(buffers: int, link: Callable[[], object], spin: int = 0) -> int:
    """How often a graph runs through all buffers: for about `REPLAY_US`, 1 to `MAX_ROTATIONS`.

    It times ``link``, the work on one buffer, which first runs once on a side stream: capture
    forbids lazy initialisation. ``spin`` are the cycles by which the host stays ahead.
    """
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        link()
        if spin:
            clock.spin(spin)
        rough_us = duration_us(link)
    torch.cuda.current_stream().wait_stream(side)
    return min(max(int(REPLAY_US / (rough_us * buffers)), 1), MAX_ROTATIONS)


def duration_us(work: Callable[[], object]) -> float:
    """The time in µs between two events around ``work``, by the card's clock."""
    start, end = (clock.Event(enable_timing=True) for _ in range(2))
    clock.record(start)
    work()
    clock.record(end)
    clock.synchronize()
    return clock.elapsed_us(start, end)
