import random
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.data.statistics import median, stop_reason

times = st.lists(st.floats(0.1, 1e6), min_size=1, max_size=300)


@given(times)
def test_median_is_the_samples_own_and_lies_in_its_interval(samples: list[float]) -> None:
    found = median(samples)
    assert found.value == pytest.approx(statistics.median(samples))
    assert found.low <= found.value <= found.high
    assert {found.low, found.high} <= set(samples)


@pytest.mark.parametrize("n", [10, 30, 101])
def test_interval_covers_the_true_median_in_95_percent_of_experiments(n: int) -> None:
    dice = random.Random(n)
    covered = 0
    for _ in range(2000):
        found = median([dice.expovariate(1.0) for _ in range(n)])
        covered += found.low <= 0.6931 <= found.high
    assert 0.94 <= covered / 2000 <= 0.9995


def test_no_samples_have_no_median() -> None:
    with pytest.raises(ValueError, match="at least one"):
        median([])


RULE = {"min_samples": 10, "max_samples": 50, "precision": 0.01, "out_of_time": False}


def test_sampling_stops_when_the_interval_is_narrow_enough() -> None:
    steady = [100.0, 100.1] * 10
    assert stop_reason(steady, **RULE) == "converged"
    assert stop_reason(steady[:9], **RULE) is None


def test_sampling_of_a_noisy_point_goes_on_to_the_cap() -> None:
    noisy = [50.0, 150.0] * 25
    assert stop_reason(noisy[:49], **RULE) is None
    assert stop_reason(noisy, **RULE) == "max_samples"


def test_a_time_limit_ends_sampling_and_is_named() -> None:
    assert stop_reason([50.0, 150.0], **RULE | {"out_of_time": True}) == "time_limit"
    assert stop_reason([], **RULE | {"out_of_time": True}) is None
