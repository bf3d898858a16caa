"""What a timed window on a CUDA device holds and what not; ``make test-gpu`` runs these."""

import time
from collections.abc import Callable

import pytest
import torch

from experiments.worker.timers import CannotTime, Flush, Protocol, Subject, events, graph
from experiments.worker.timers.graph import PLACES

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]


def elapsed(call: Callable[[torch.Tensor], torch.Tensor], flush: Flush | None, n: int) -> float:
    protocol = Protocol("events", "cold", 3, 50, 100, 0.01, 30)
    x = torch.randn(n, n, device="cuda")
    samples = sorted(events.sample(Subject(call, x, lambda _: x, flush), protocol).samples_us)
    return samples[len(samples) // 2]


def test_the_flush_is_outside_the_timed_window() -> None:
    once, more = Flush("cuda", 60 << 20), Flush("cuda", 600 << 20)
    assert elapsed(torch.clone, more, 256) == pytest.approx(elapsed(torch.clone, once, 256), abs=2)


def test_cold_is_cold() -> None:
    flush = Flush("cuda", torch.cuda.get_device_properties(0).L2_cache_size)
    assert elapsed(torch.sum, flush, 2048) > 1.15 * elapsed(torch.sum, None, 2048)


def test_the_hosts_time_to_launch_is_outside_the_timed_window() -> None:
    def slow(x: torch.Tensor) -> torch.Tensor:
        for _ in range(2000):
            float("1.5")  # some 100 µs of Python before the launch
        return torch.clone(x)

    assert elapsed(slow, None, 512) == pytest.approx(elapsed(torch.clone, None, 512), abs=2)


def test_a_host_that_stumbles_leaves_no_mark_on_the_samples() -> None:
    calls = 0

    def stumbling(x: torch.Tensor) -> torch.Tensor:
        nonlocal calls
        calls += 1
        if calls % 7 == 0:
            time.sleep(1e-3)
        return torch.clone(x)

    protocol = Protocol("events", "cold", 3, 100, 100, 1e-9, 30)
    x = torch.randn(512, 512, device="cuda")
    flush = Flush("cuda", 60 << 20)
    samples = events.sample(Subject(stumbling, x, lambda _: x, flush), protocol).samples_us
    assert len(samples) == 100
    assert max(samples) < 100


def test_a_call_that_waits_for_the_device_is_refused_by_events() -> None:
    def waiting(x: torch.Tensor) -> torch.Tensor:
        y = torch.clone(x)
        torch.cuda.synchronize()
        return y

    with pytest.raises(CannotTime, match="timing=host"):
        elapsed(waiting, None, 512)


def test_a_graph_is_timed_at_many_places() -> None:
    places = set()

    def make(_: int) -> torch.Tensor:
        return torch.randn(4096, 4096, device="cuda")

    def call(x: torch.Tensor) -> torch.Tensor:
        y = torch.clone(x)
        places.add((x.data_ptr(), y.data_ptr()))
        return y

    protocol = Protocol("graph", "cold", 1, 5, 5, 1e-9, 30)
    cache_bytes = torch.cuda.get_device_properties(0).L2_cache_size
    sampling = graph.sample(Subject(call, make(0), make, None, cache_bytes), protocol)
    assert len(places) >= PLACES
    assert len(sampling.samples_us) == 5
    assert all(torch.equal(x, y) for x, y in sampling.timed)
