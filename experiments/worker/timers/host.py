"""The host's clock around each call: a kernel's time on a CPU, the host's cost on a card."""

from __future__ import annotations

from experiments.worker import clock
from experiments.worker.timers import Protocol, Sampling, Subject, collect

CALLS = 20  # in a row on a card, so that the first after a wait does not stand for all


def sample(subject: Subject, protocol: Protocol) -> Sampling:
    """The host's monotonic clock around a call that has returned.

    On a card a sample is the mean of some calls in a row, handed over while nothing else is queued;
    it ends when the last has returned, and the card may still be at work.
    """
    call, inputs = subject.call, subject.inputs
    is_cuda = inputs[0].is_cuda
    calls = CALLS if is_cuda and subject.overwritten is None else 1

    def batch(_: int = 1) -> list[float]:
        subject.before()
        if is_cuda:
            clock.synchronize()
        start = clock.now_ns()
        for _ in range(calls):
            y = call(*inputs)
        spent_us = (clock.now_ns() - start) / 1e3
        subject.keep(y)
        return [spent_us / calls]

    call(*inputs)
    for _ in range(protocol.warmup):
        batch()
    samples, reason = collect(batch, protocol)
    return Sampling(samples, reason, subject.timed())
