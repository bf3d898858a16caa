"""The median of a point's samples, and when sampling ends."""

import random
import statistics

import pytest

from experiments.data.statistics import Median, median, stop_reason


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
