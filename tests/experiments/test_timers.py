import time

import pytest
import torch

from experiments.worker.timers import Flush, Protocol
from experiments.worker.timers.graph import rotation
from experiments.worker.timers.host import host


def protocol(**changes: float) -> Protocol:
    values = {"warmup": 2, "min_samples": 5, "max_samples": 20, "precision": 1e-9}
    return Protocol("host", "cold", **values | {"sampling_limit_s": 30} | changes)  # type: ignore[arg-type]


class SlowFlush(Flush):
    """A flush that takes five milliseconds and counts."""

    def __init__(self) -> None:
        super().__init__("cpu", 1 << 10)
        self.times = 0

    def __call__(self) -> None:
        self.times += 1
        time.sleep(5e-3)


def test_the_flush_precedes_every_sample_and_is_in_none() -> None:
    flush = SlowFlush()
    x = torch.randn(8, 8)
    sampling = host(torch.clone, x, flush, protocol())
    assert len(sampling.samples_us) == 20
    assert flush.times == 2 + 20
    assert sorted(sampling.samples_us)[10] < 2500


def test_the_first_calls_are_thrown_away() -> None:
    calls = 0

    def slow_at_first(x: torch.Tensor) -> torch.Tensor:
        nonlocal calls
        calls += 1
        time.sleep(0.05 if calls <= 3 else 0)
        return x.clone()

    # one call before sampling gives the buffer its first answer, then the warm-up
    sampling = host(slow_at_first, torch.randn(8, 8), None, protocol(warmup=2))
    assert sorted(sampling.samples_us)[10] < 20_000
    assert max(sampling.samples_us[:1]) < 50_000


def test_a_time_limit_ends_a_slow_point_with_the_samples_it_has() -> None:
    def slow(x: torch.Tensor) -> torch.Tensor:
        time.sleep(0.05)
        return x.clone()

    sampling = host(slow, torch.randn(8, 8), None, protocol(sampling_limit_s=0.3, warmup=0))
    assert sampling.stop_reason == "time_limit"
    assert 1 <= len(sampling.samples_us) < 20
    assert min(sampling.samples_us) >= 50_000


def test_the_timed_answer_is_handed_to_the_gate() -> None:
    x = torch.randn(8, 8)
    ((seen, y),) = host(torch.exp, x, None, protocol()).timed
    assert seen is x
    assert torch.equal(y, x.exp())


@pytest.mark.parametrize("cache_bytes", [1 << 20, 3 << 20])
def test_a_flush_reads_twice_the_cache_and_leaves_its_buffer_clean(cache_bytes: int) -> None:
    flush = Flush("cpu", cache_bytes)
    assert flush.size_bytes == 2 * cache_bytes
    before = flush._buffer._version
    flush()
    assert flush._buffer._version == before


@pytest.mark.parametrize(
    ("moved", "memory", "buffers"),
    [
        (1 << 20, 80 << 30, 181),  # what it takes to exceed three times L2
        (64 << 20, 80 << 30, 12),
        (1 << 30, 80 << 30, 4),  # as many as 4 GiB hold
        (8 << 30, 80 << 30, 1),
        (256 << 20, 8 << 30, 4),  # as many as an eighth of a small card's memory holds
        (0, 80 << 30, 3 * (60 << 20) + 1),
    ],
)
def test_a_rotation_exceeds_three_times_l2_and_has_many_places(
    moved: int, memory: int, buffers: int
) -> None:
    assert rotation(moved, 60 << 20, memory) == buffers
