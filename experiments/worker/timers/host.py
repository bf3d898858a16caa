"""Times calls by the host's clock: a kernel's time on a CPU, the host's cost per call on a card."""

import io
import os
from contextlib import suppress
from functools import lru_cache

from experiments.worker import clock
from experiments.worker.timers import Protocol, Sampling, Subject, collect

CALLS_PER_SAMPLE = 20  # on a card, where the first call after a wait costs more than the others
MOST_DROPPED = 20  # windows in a row; a busy machine may leave none undisturbed
TASKS = "/proc/self/task"
MOST_WAITED = 0.1  # the part of a window that all threads together may wait for a core


def sample(subject: Subject, protocol: Protocol) -> Sampling:
    """The time in µs from a call until it returns, by the host's monotonic clock.

    On a CPU another process may have a core: a window in which this process's threads waited for
    one for more than `MOST_WAITED` of the time is dropped and counted as late. After `MOST_DROPPED`
    in a row such windows are counted and kept, so that sampling ends; `suspicions` reads the count.

    On a card a sample is the mean of `CALLS_PER_SAMPLE` calls, or one call if the kernel overwrites
    its input. Nothing else is queued before them, and the card may still work after them.
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
    """The µs that all threads of this process have waited for a core so far; 0 except on Linux."""
    for _ in range(2):
        with suppress(OSError, IndexError):
            files = _schedstats(os.stat(TASKS).st_nlink)
            return sum(int(os.pread(one.fileno(), 100, 0).split()[1]) for one in files) / 1e3
        _schedstats.cache_clear()  # a thread has ended, so its file cannot be read: open all anew
    return 0.0


@lru_cache(1)
def _schedstats(links: int) -> list[io.FileIO]:
    """The open schedstat files of all threads; ``links``, threads + 2, is the cache's key."""
    return [io.FileIO(f"{thread.path}/schedstat") for thread in os.scandir(TASKS)]
