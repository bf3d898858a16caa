"""The host's clock around each call."""

from __future__ import annotations

import time

import torch

from experiments.worker.timers import Protocol, Sampling, Subject, collect


def sample(subject: Subject, protocol: Protocol) -> Sampling:
    """The host's monotonic clock around each call; on CUDA it includes launch and waiting."""
    x, is_cuda = subject.x, subject.x.is_cuda
    y = [subject.call(x)]

    def batch(_: int = 1) -> list[float]:
        if subject.flush is not None:
            subject.flush()
        y.clear()
        if is_cuda:
            torch.cuda.synchronize()
        start = time.perf_counter_ns()
        y.append(subject.call(x))
        if is_cuda:
            torch.cuda.synchronize()
        return [(time.perf_counter_ns() - start) / 1e3]

    for _ in range(protocol.warmup):
        batch()
    samples, reason = collect(batch, protocol)
    return Sampling(samples, reason, [(x, y[0])])
