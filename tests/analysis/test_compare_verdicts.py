"""What a comparison says of points with known differences, and how often it is wrong."""

from __future__ import annotations

from collections import Counter
from functools import cache

import numpy as np
import pytest

from analysis.comparison.noise import Range, at, recorded
from analysis.comparison.pairs import Pair
from analysis.comparison.verdicts import Asked, Compared, judge
from tests.analysis.rounded import pair, sweep, visits

RANGES = recorded()[1]
ROUNDS, POINTS = 8, 30
# From launches to long ones, the first, which is slowed down, at 50 µs.
TIMES = np.array([51.0, *np.geomspace(6, 2000, POINTS - 1)])


@cache
def compare(slowdown: float, seed: int, rounds: int = ROUNDS) -> list[Compared]:
    dice = np.random.default_rng(seed)
    base, head = (sweep(dice, TIMES, rounds, s) for s in (0.0, slowdown))
    pairs = [
        pair(list(b), list(h), str(i)) for i, (b, h) in enumerate(zip(base, head, strict=True))
    ]
    return judge(pairs, Asked(), RANGES)


def test_a_slowdown_of_two_percent_at_50_us_is_found_in_50_repetitions() -> None:
    found = [compare(0.02, seed)[0] for seed in range(50)]
    assert sum(one.verdict == "slower" for one in found) >= 45
    assert all(one.verdict in ("slower", "unclear", "same") for one in found)


def test_none_is_found_in_50_repetitions_where_there_is_none() -> None:
    verdicts = Counter(one.verdict for seed in range(50) for one in compare(0.0, seed))
    assert verdicts["slower"] + verdicts["faster"] <= 0.05 * 50
    assert verdicts["same"] > 0.5 * verdicts.total()


def test_a_gate_fails_on_five_percent_and_holds_on_none() -> None:
    assert sum(compare(0.05, seed)[0].regression for seed in range(50)) >= 45
    assert not any(one.regression for seed in range(50) for one in compare(0.0, seed))


def test_a_slowdown_within_the_threshold_fails_no_gate() -> None:
    assert not any(one.regression for seed in range(30) for one in compare(0.018, seed))


def test_one_round_each_finds_what_is_far_beyond_the_noise_between_sweeps_and_no_less() -> None:
    [small] = judge([pair([8.0], [8.2])], Asked(), RANGES)
    [large] = judge([pair([50.0], [60.0])], Asked(), RANGES)
    assert (small.verdict, small.regression) == ("unclear", False)
    assert (large.verdict, large.regression) == ("slower", True)
    many = [pair([50.0], [50.0]) for _ in range(1500)]
    assert judge([*many, pair([50.0], [53.0])], Asked(), RANGES)[-1].verdict == "unclear"
    assert judge([pair([50.0], [53.0])], Asked(), RANGES)[-1].verdict == "slower"


def test_one_round_against_eight_is_held_to_the_noise_of_one() -> None:
    wide, narrow = (judge([pair(b, [50.0, 50.1] * 4)], Asked(), RANGES)[0]
                    for b in ([50.05], [50.0, 50.1] * 4))  # fmt: skip
    assert wide.high - wide.low > 1.5 * (narrow.high - narrow.low)


def test_rounds_that_agree_are_not_believed_beyond_the_noise_between_processes() -> None:
    """Eight rounds of one process may all lie 1.2 % off: the recorded noise is not forgotten."""
    base, head = [50.0, 50.01] * 4, [50.6, 50.61] * 4
    pairs = [pair(base, head), *(pair(base, base) for _ in range(20))]
    assert judge(pairs, Asked(threshold=0.001), RANGES)[0].verdict == "unclear"
    quiet = [Range(None, 100, 1e-6, 3.0, 1e-6)]
    assert judge(pairs, Asked(threshold=0.001), quiet)[0].verdict == "slower"


@pytest.mark.parametrize("persists", [0.3, 0.7, 1.0])
def test_alarms_are_as_rare_as_said_though_noise_persists_through_a_process(
    persists: float,
) -> None:
    """As a share of the recorded noise: the rest differs between rounds and is seen there."""
    dice, alarms = np.random.default_rng(11), 0
    for _ in range(10):
        times = np.geomspace(5, 5000, 200)
        scale, shape, _ = at(RANGES, times)
        apart = scale * np.sqrt(persists) * dice.standard_t(shape)
        rounds = np.maximum(scale * np.sqrt((1 - persists) / 2), 0.0005)
        sides = [times[:, None] * np.exp(offset[:, None] + rounds[:, None] *
                 dice.standard_normal((200, ROUNDS))) for offset in (0 * apart, apart)]  # fmt: skip
        found = judge([pair(b, h) for b, h in zip(*sides, strict=True)], Asked(), RANGES)
        alarms += any(one.verdict in ("slower", "faster") for one in found)
    assert alarms <= 2


def test_faster_is_slower_the_other_way_round() -> None:
    base, head = [50.0, 50.1, 49.9, 50.05], [47.0, 47.1, 46.9, 47.05]
    [ahead], [back] = (judge([pair(*p)], Asked(), RANGES) for p in ((base, head), (head, base)))
    assert (ahead.verdict, back.verdict) == ("faster", "slower")
    assert ahead.ratio == pytest.approx(1 / back.ratio)
    assert (ahead.low, ahead.high) == pytest.approx((1 / back.high, 1 / back.low))
    assert not ahead.regression
    assert back.regression


def test_the_interval_for_all_points_holds_the_one_for_each() -> None:
    for one in compare(0.02, 3):
        assert one.all_low < one.low < one.ratio < one.high < one.all_high


@pytest.mark.parametrize("status", ["crashed", "incorrect", "timeout", "unsupported"])
def test_a_point_that_was_ok_and_is_not_any_more_is_a_regression(status: str) -> None:
    lost = visits([50.0] * 8)
    broken = visits([50.0], status=status, time_us=float("nan"), reason="why")
    pairs = [Pair(pair([1.0], [1.0]).place, *sides) for sides in ((lost, broken), (broken, lost))]
    failed, fixed = judge(pairs, Asked(), RANGES)
    assert (failed.verdict, failed.regression) == ("failed", True)
    assert (fixed.verdict, fixed.regression) == ("fixed", False)


def test_one_bad_round_of_eight_is_a_failure_too() -> None:
    good = visits([50.0] * 8)
    flaky = type(good)((*good.rows[:7], dict(good.rows[7]) | {"status": "crashed"}))
    [one] = judge([Pair(pair([1.0], [1.0]).place, good, flaky)], Asked(), RANGES)
    assert (one.verdict, one.regression) == ("failed", True)
    assert flaky.reason == "in 1 of 8 rounds"
