"""The host's clock around each call: a kernel's time on a CPU, the host's cost on a card."""

import io
import os
from contextlib import suppress
from functools import lru_cache

from experiments.worker import clock
from experiments.worker.timers import Protocol, Sampling, Subject, collect

CALLS_PER_SAMPLE = 20  # per sample on a card, so that the first after a wait does not stand for all
MOST_DROPPED = 20  # windows in a row; a busy machine may leave none undisturbed
TASKS = "/proc/self/task"
MOST_WAITED = 0.1  # the share of a window that all threads together may wait for a core


def sample(subject: Subject, protocol: Protocol) -> Sampling:
    """The host's monotonic clock around a call that has returned.

    On a CPU a window in which threads of this process waited for a core is dropped and counted as
    late: another process had the core. After `MOST_DROPPED` in a row such windows are counted and
    kept, so that the point ends; a row with many of them is suspect.

    On a card a sample is the mean of some calls in a row, handed over while nothing else is queued;
    it ends when the last has returned, and the card may still be at work.
    """
    call, inputs = subject.call, subject.inputs
    is_cuda = inputs[0].is_cuda
    calls = CALLS_PER_SAMPLE if is_cuda and subject.overwritten is None else 1
    in_a_row = 0

    def batch(_: int) -> list[float | None]:
        nonlocal in_a_row
        subject.before()
        if is_cuda:
            clock.synchronize()
        waited = 0.0 if is_cuda else waited_us()
        start = clock.now_ns()
        for _ in range(calls):
            y = call(*inputs)
        spent_us = (clock.now_ns() - start) / 1e3
        disturbed = not is_cuda and waited_us() - waited > MOST_WAITED * spent_us
        subject.keep(y)
        in_a_row = in_a_row + 1 if disturbed else 0
        none: list[float | None] = [None] * disturbed
        return none if 0 < in_a_row <= MOST_DROPPED else [*none, spent_us / calls]

    call(*inputs)
    return collect(batch, protocol)._replace(timed=subject.timed())


def waited_us() -> float:
    """The time that all threads of this process have waited for a core; 0 except on Linux."""
    for _ in range(2):
        with suppress(OSError, IndexError):
            files = _schedstats(os.stat(TASKS).st_nlink)
            return sum(int(os.pread(one.fileno(), 100, 0).split()[1]) for one in files) / 1e3
        _schedstats.cache_clear()  # a thread has ended
    return 0.0


@lru_cache(1)
def _schedstats(links: int) -> list[io.FileIO]:
    """The threads' open files; ``links``, the number of threads plus two, is the cache's key."""
    return [io.FileIO(f"{thread.path}/schedstat") for thread in os.scandir(TASKS)]
