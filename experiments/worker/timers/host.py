"""The host's clock around each call."""

from __future__ import annotations

import time

import torch

from experiments.worker.timers import Protocol, Sampling, Subject, collect


def sample(subject: Subject, protocol: Protocol) -> Sampling:
    """The host's monotonic clock around each call; on CUDA it includes launch and waiting."""
    call, inputs = subject.call, subject.inputs
    is_cuda = inputs[0].is_cuda
    y = [call(*inputs)]

    def batch(_: int = 1) -> list[float]:
        subject.before()
        y.clear()
        if is_cuda:
            torch.cuda.synchronize()
        start = time.perf_counter_ns()
        y.append(call(*inputs))
        if is_cuda:
            torch.cuda.synchronize()
        return [(time.perf_counter_ns() - start) / 1e3]

    for _ in range(protocol.warmup):
        batch()
    samples, reason = collect(batch, protocol)
    return Sampling(samples, reason, [(subject.asked(inputs), y[0])])
