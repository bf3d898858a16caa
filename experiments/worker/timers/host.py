"""The host's clock around each call: a kernel's time on a CPU, the host's cost on a card."""

from __future__ import annotations

import resource

from experiments.worker import clock
from experiments.worker.timers import Protocol, Sampling, Subject, collect

CALLS = 20  # in a row on a card, so that the first after a wait does not stand for all
MOST_DROPPED = 20  # windows in a row, since a busy machine may leave none undisturbed


def sample(subject: Subject, protocol: Protocol) -> Sampling:
    """The host's monotonic clock around a call that has returned.

    On a CPU a window in which the system gave a core to another process is no sample. It is
    dropped and counted as late, unless too many before it were.

    On a card a sample is the mean of some calls in a row, handed over while nothing else is queued;
    it ends when the last has returned, and the card may still be at work.
    """
    call, inputs = subject.call, subject.inputs
    is_cuda = inputs[0].is_cuda
    calls = CALLS if is_cuda and subject.overwritten is None else 1
    dropped = in_a_row = 0

    def batch(_: int = 1) -> list[float]:
        nonlocal dropped, in_a_row
        subject.before()
        if is_cuda:
            clock.synchronize()
        switches = involuntary_switches()
        start = clock.now_ns()
        for _ in range(calls):
            y = call(*inputs)
        spent_us = (clock.now_ns() - start) / 1e3
        disturbed = not is_cuda and involuntary_switches() > switches
        subject.keep(y)
        in_a_row = in_a_row + 1 if disturbed else 0
        if disturbed and in_a_row <= MOST_DROPPED:
            dropped += 1
            return []
        return [spent_us / calls]

    call(*inputs)
    for _ in range(protocol.warmup):
        batch()
    dropped = in_a_row = 0
    samples, reason = collect(batch, protocol)
    return Sampling(samples, reason, subject.timed(), dropped)


def involuntary_switches() -> int:
    """How often the system took a core from this process."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw
