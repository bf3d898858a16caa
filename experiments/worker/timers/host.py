"""The host's clock around each call."""

from __future__ import annotations

import time

import torch

from experiments.worker.timers import Call, Flush, Protocol, Sampling, collect


def host(call: Call, x: torch.Tensor, flush: Flush | None, protocol: Protocol) -> Sampling:
    """The host's monotonic clock around each call; on CUDA it includes launch and waiting."""
    wait = torch.cuda.synchronize if x.is_cuda else _nothing
    y = [call(x)]

    def batch(_: int = 1) -> list[float]:
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
