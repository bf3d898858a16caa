"""The median of a point's samples, when sampling ends, and the shape of their stream."""

import random
import statistics
from collections.abc import Callable

import pytest

from experiments.data.statistics import Median, Trend, median, modes, stop_reason, trend


@pytest.mark.parametrize("n", [10, 101])
def test_interval_covers_the_true_median_in_95_percent_of_experiments(n: int) -> None:
    dice = random.Random(n)
    covered = 0
    for _ in range(1000):
        samples = [dice.expovariate(1.0) for _ in range(n)]
        found = median(samples)
        assert found.value == pytest.approx(statistics.median(samples))
        covered += found.low <= 0.6931 <= found.high
    assert 0.94 <= covered / 1000 <= 0.9995


def test_few_samples_have_their_extremes_as_interval_and_none_have_no_median() -> None:
    assert median([3.0, 1.0, 2.0]) == Median(2.0, 1.0, 3.0)
    with pytest.raises(ValueError, match="at least one"):
        median([])


RULE = {"min_samples": 10, "max_samples": 50, "precision": 0.01, "out_of_time": False}


def test_sampling_ends_when_it_converged_at_the_cap_or_at_the_time_limit() -> None:
    steady, noisy = [100.0, 100.1] * 10, [50.0, 150.0] * 25
    assert stop_reason(steady, **RULE) == "converged"
    assert stop_reason(steady[:9], **RULE) is None
    assert stop_reason(noisy[:49], **RULE) is None
    assert stop_reason(noisy, **RULE) == "max_samples"
    assert stop_reason(noisy[:2], **RULE | {"out_of_time": True}) == "time_limit"
    assert stop_reason([], **RULE | {"out_of_time": True}) is None


Noise = Callable[[random.Random], float]

# realistic noise: a batch of ten whose first is slower, spikes, the clock's ticks of 32 ns
NOISE: dict[str, Noise] = {
    "normal": lambda dice: dice.gauss(100, 1),
    "uniform": lambda dice: dice.uniform(99, 101),
    "lognormal": lambda dice: 100 + dice.lognormvariate(0, 0.7),
    "exponential": lambda dice: 100 + dice.expovariate(1),
    "ticks": lambda dice: round(dice.gauss(5, 0.05) / 0.032) * 0.032,
    "spikes": lambda dice: dice.gauss(100, 0.5) + 900 * (dice.random() < 0.02),
}


@pytest.mark.parametrize("noise", NOISE)
def test_steady_noise_has_no_trend_and_one_mode_but_once_in_hundreds(noise: str) -> None:
    dice = random.Random(noise)
    streams = [[NOISE[noise](dice) for _ in range(n)] for n in (100, 500) for _ in range(100)]
    assert sum(abs(trend(stream).z) > 3.29 for stream in streams) <= 2
    assert sum(modes(stream) is not None for stream in streams) <= 2


def test_what_repeats_or_never_changes_has_no_trend_and_one_mode() -> None:
    dice = random.Random(1)
    slow_position = [100 + 2 * (i % 10 == 9) + dice.gauss(0, 0.2) for i in range(500)]
    assert abs(trend(slow_position).z) < 3.29
    assert trend([7.0] * 500).z == 0
    assert modes([7.0] * 500) is None
    assert modes([dice.gauss(12 if i % 20 == 0 else 10, 0.05) for i in range(500)]) is None


@pytest.mark.parametrize(("n", "change"), [(100, -3.0), (500, 3.0)])
def test_a_drift_is_found_with_its_size(n: int, change: float) -> None:
    dice = random.Random(n)
    stream = [100 + change * i / (n - 1) + dice.gauss(0, 0.5) for i in range(n)]
    found = trend(stream)
    assert abs(found.z) > 3.29
    assert found.change_us == pytest.approx(change, rel=0.3)


@pytest.mark.parametrize("share", [0.15, 0.85])
def test_two_modes_are_found_with_their_places_and_shares(share: float) -> None:
    dice = random.Random(3)
    stream = [dice.gauss(10.5 if dice.random() < share else 10, 0.05) for _ in range(500)]
    found = modes(stream)
    assert found is not None
    assert (found.low_us, found.high_us) == pytest.approx((10, 10.5), abs=0.02)
    assert found.upper_share == pytest.approx(share, abs=0.05)


@pytest.mark.parametrize("samples", [[], [1.0], [1.0] * 9 + [2.0], [1.0, 2.0] * 3])
def test_a_short_stream_has_an_answer(samples: list[float]) -> None:
    assert trend(samples) == Trend(0.0, 0.0)
    found = modes(samples)
    assert found is None or found.low_us < found.high_us
