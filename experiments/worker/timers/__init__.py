"""Ways to time a call, a module each: CUDA events, CUDA graphs, the host's clock.

A timer is a module here with a function ``sample(subject, protocol) -> Sampling``; its name is the
configuration's ``timing.timer``. It takes one sample after another, in microseconds; when to stop
is decided in `collect` alone.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import torch

from experiments.data.statistics import stop_reason

Call = Callable[[torch.Tensor], torch.Tensor]


class CannotTime(Exception):
    """The asked protocol has no meaning for this point; the message says why."""


@dataclass(frozen=True)
class Subject:
    """What is timed.

    Attributes:
        call: The prepared kernel.
        x: Its input.
        make: Makes the i-th further input, for a timer that takes buffers in turn.
        flush: To be called before each sample and outside of it, such as a `Flush`, or None.
        cache_bytes: The device's L2.
    """

    call: Call
    x: torch.Tensor
    make: Callable[[int], torch.Tensor]
    flush: Callable[[], object] | None = None
    cache_bytes: int = 0


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
    """All samples of a point, why they ended, and the buffers that were timed.

    ``late`` counts windows that were no sample, because the host had not handed the call over.
    """

    samples_us: list[float]
    stop_reason: str
    timed: list[tuple[torch.Tensor, torch.Tensor]]
    late: int = 0


def collect(batch: Callable[[int], list[float]], protocol: Protocol) -> tuple[list[float], str]:
    """Takes batches until the stopping rule is met; half the limit is left for checking.

    ``batch`` is given how many samples the cap still allows, and takes that many or fewer.
    """
    end = time.perf_counter() + protocol.sampling_limit_s / 2
    samples: list[float] = []
    while True:
        samples += batch(protocol.max_samples - len(samples))
        reason = stop_reason(
            samples,
            min_samples=protocol.min_samples,
            max_samples=protocol.max_samples,
            precision=protocol.precision,
            out_of_time=time.perf_counter() > end,
        )
        if reason is not None:
            return samples, reason
