from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtr

from analysis.estimate import (
    RESOLUTION_US,
    median_of,
    prediction,
    quantile,
    ratio_of,
    resampled,
    tail,
    timer_step,
)
from experiments.data import statistics
from tests.analysis.compare.noisy import NOISES, rounds_of, samples

times = st.floats(min_value=0.01, max_value=1e6, allow_nan=False)
some_rounds = st.lists(st.lists(times, min_size=1, max_size=12), min_size=1, max_size=6)


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("heavier_head", [50.0, 12.0])
def test_eight_rounds_predict_the_ninth(noise: str, heavier_head: float) -> None:
    dice = np.random.default_rng(9)
    held = 0
    for _ in range(300):
        *known, further = rounds_of(dice, noise, 9, heavier_head)
        told = prediction(known)
        held += told.low <= statistics.median(further).value <= told.high
    assert held / 300 >= 0.90


@pytest.mark.parametrize("noise", ["normal", "heavy"])
def test_the_bootstrap_holds_the_median_that_rounds_vary_around(noise: str) -> None:
    dice = np.random.default_rng(7)
    told = [median_of(rounds_of(dice, noise, 8)) for _ in range(200)]
    assert np.mean([one.low <= 50 <= one.high for one in told]) >= 0.92


def test_samples_within_rounds_alone_do_not_hold_it() -> None:
    """Why rounds are the unit: pooled samples claim far more than they know."""
    dice = np.random.default_rng(7)
    pooled = [
        statistics.median([s for one in rounds_of(dice, "normal", 8) for s in one])
        for _ in range(200)
    ]
    assert np.mean([one.low <= 50 <= one.high for one in pooled]) < 0.8


def test_a_ratio_of_equals_holds_one_and_what_moves_both_leaves_it_alone() -> None:
    dice = np.random.default_rng(5)
    held, widths = [], []
    for _ in range(200):
        shared = np.exp(0.05 * dice.standard_normal(8))  # a drift far beyond the difference
        first, second = ([samples(dice, 50 * f) for f in shared] for _ in range(2))
        told = ratio_of(first, second)
        held.append(told.low <= 1 <= told.high)
        widths.append(told.high - told.low)
    assert np.mean(held) >= 0.93
    assert np.median(widths) < 0.01


def test_a_slowdown_of_two_percent_is_told_from_none() -> None:
    dice = np.random.default_rng(6)
    told = [
        ratio_of(rounds_of(dice, "normal", 8, 51.0), rounds_of(dice, "normal", 8)).low > 1
        for _ in range(50)
    ]
    assert np.mean(told) > 0.9


@given(some_rounds)
@settings(max_examples=60, deadline=None)
def test_an_interval_holds_its_value_and_is_the_same_each_time(rounds: list[list[float]]) -> None:
    for told in (median_of(rounds), prediction(rounds), ratio_of(rounds, rounds[::-1])):
        assert 0 <= told.low <= told.value * (1 + 1e-9)
        assert told.value <= told.high * (1 + 1e-9)
        assert told.one_round == (len(rounds) == 1)
    assert median_of(rounds) == median_of(rounds)


@given(some_rounds.filter(lambda rounds: len(rounds) > 1))
@settings(max_examples=40, deadline=None)
def test_a_prediction_holds_every_round_seen_and_a_step_beyond(rounds: list[list[float]]) -> None:
    told, step = prediction(rounds), timer_step(rounds)
    for one in rounds:
        middle = statistics.median(one).value
        assert told.low <= max(middle - step, 0)
        assert told.high >= middle + step


def test_of_one_round_the_rows_own_interval_is_given_and_it_says_so() -> None:
    one = samples(np.random.default_rng(1), 50.0)
    own = statistics.median(one)
    for told in (median_of([one]), prediction([one])):
        assert (told.value, told.low, told.high, told.one_round) == (*_ends(own), True)
    ratio = ratio_of([one], [one])
    assert (ratio.low, ratio.high) == (own.low / own.high, own.high / own.low)


def _ends(own: statistics.Median) -> tuple[float, float, float]:
    return own.value, own.low, own.high


def test_more_rounds_predict_more_narrowly_and_a_wider_level_more_widely() -> None:
    medians = [50.0, 50.1, 49.9, 50.05, 49.95, 50.02, 49.98, 50.08]
    widths = [_width(medians[:n], 0.95) for n in (2, 4, 8)]
    assert all(a > b for a, b in pairwise(widths))
    assert _width(medians, 0.99) > _width(medians, 0.95)


def _width(medians: list[float], level: float) -> float:
    told = prediction([[m, m + 0.001] for m in medians], level)
    return told.high - told.low


def test_rounds_that_agree_to_the_last_digit_leave_a_step_of_the_timer() -> None:
    same = prediction([[50.0] * 20] * 8)
    assert (same.low, same.high) == pytest.approx((50 - RESOLUTION_US, 50 + RESOLUTION_US))
    assert timer_step([[50.0, 50.5], [51.25]]) == pytest.approx(0.5)


def test_nothing_comes_of_nothing() -> None:
    for broken in ([], [[]], [[1.0], []]):
        with pytest.raises(ValueError, match="need a round"):
            prediction(broken)
    with pytest.raises(ValueError, match="2 rounds cannot be paired with 1"):
        ratio_of([[1.0], [1.0]], [[1.0]])


@pytest.mark.parametrize("count", [1, 2, 7, 40])
def test_a_resamples_median_is_distributed_as_if_its_samples_were_drawn(count: int) -> None:
    dice = np.random.default_rng(3)
    values = np.sort(dice.lognormal(size=count))
    drawn = np.median(values[dice.integers(0, count, (20_000, count))], axis=1)
    quick = resampled([list(values)], np.zeros((20_000, 1), dtype=int), dice)[:, 0]
    for share in (0.05, 0.25, 0.5, 0.75, 0.95):
        reached = np.quantile(drawn, share)
        assert np.mean(quick <= reached) == pytest.approx(np.mean(drawn <= reached), abs=0.015)


@pytest.mark.parametrize(
    ("level", "df", "expected"),
    # Abramowitz & Stegun, table 26.10, and R's qt for the far tail
    [(0.025, 1, 12.7062), (0.025, 7, 2.36462), (0.005, 30, 2.74999), (1e-4, 3, 22.2037),
     (1e-5, 7, 10.1027)],
)  # fmt: skip
def test_quantiles_of_student_are_those_of_the_tables(
    level: float, df: float, expected: float
) -> None:
    assert float(quantile(level, df)) == pytest.approx(expected, rel=1e-5)


@given(st.floats(1e-7, 0.49), st.floats(1, 2000))
@settings(max_examples=40, deadline=None)
def test_a_quantile_has_its_level_beyond_it(level: float, df: float) -> None:
    found = float(quantile(level, df))
    assert float(tail(found, df)) == pytest.approx(level, rel=1e-6)
    assert float(tail(-found, df)) == pytest.approx(1 - level, rel=1e-6)
    assert float(tail(found, df)) >= float(ndtr(-found)) * (1 - 1e-9)
