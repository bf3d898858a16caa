"""What a comparison says of points with known differences, and how often it is wrong."""

from __future__ import annotations

from collections import Counter
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest

from analysis.compare.noise import fit
from analysis.compare.points import NoiseRange, judged, noise_at, recorded_noise
from analysis.compare.tables import ranges_table
from analysis.estimate import quantile
from tests.analysis.compare.noisy import points, sweep

RANGES = recorded_noise()[1]
ROUNDS, POINTS, SEEDS = 8, 30, range(50)
# From launches to long ones, the first, which is slowed down, at 50 µs.
TIMES = np.array([51.0, *np.geomspace(6, 2000, POINTS - 1)])


@cache
def compare(slowdown: float, seed: int) -> pd.DataFrame:
    dice = np.random.default_rng(seed)
    base, head = (sweep(dice, TIMES, ROUNDS, s) for s in (0.0, slowdown))
    return judged(points(*zip(base, head, strict=True)))


def first(*pairs: Any, at: int = 0) -> Any:
    return judged(points(*pairs)).iloc[at]


def test_a_slowdown_of_two_percent_at_50_us_is_found_in_50_repetitions() -> None:
    found = [compare(0.02, seed).iloc[0] for seed in SEEDS]
    assert sum(one.verdict == "slower" for one in found) >= 45
    assert {one.verdict for one in found} <= {"slower", "unclear", "same"}
    for one in found:
        assert one.all_low < one.low < one.ratio < one.high < one.all_high


def test_none_is_found_in_50_repetitions_where_there_is_none() -> None:
    every = pd.concat(compare(0.0, seed) for seed in SEEDS)
    verdicts = Counter(every["verdict"])
    assert verdicts["slower"] + verdicts["faster"] <= 0.05 * 50
    assert verdicts["same"] > 0.5 * len(every)
    assert not every["regression"].any()


def test_a_gate_fails_beyond_its_threshold_and_holds_within() -> None:
    assert sum(compare(0.05, seed).loc[0, "regression"] for seed in SEEDS[:10]) >= 9
    assert not any(compare(0.018, seed)["regression"].any() for seed in SEEDS[:10])


def test_one_round_each_finds_what_is_far_beyond_the_noise_between_sweeps_and_no_less() -> None:
    small, large = first(([8.0], [8.2])), first(([50.0], [60.0]))
    assert (small.verdict, small.regression) == ("unclear", False)
    assert (large.verdict, large.regression) == ("slower", True)
    assert first(([50.0], [53.0])).verdict == "slower"
    assert first(*[([50.0], [50.0])] * 1500, ([50.0], [53.0]), at=-1).verdict == "unclear"


def test_one_round_against_eight_is_judged_by_the_noise_of_one() -> None:
    wide, narrow = (first((base, [50.0, 50.1] * 4)) for base in ([50.05], [50.0, 50.1] * 4))
    assert wide.high - wide.low > 1.5 * (narrow.high - narrow.low)


def test_rounds_that_agree_are_not_believed_beyond_the_noise_between_processes() -> None:
    """Eight rounds of one process may all lie 1.2 % off: the recorded noise is not forgotten."""
    base, head = [50.0, 50.01] * 4, [50.6, 50.61] * 4
    table, quiet = points((base, head), *[(base, base)] * 20), [NoiseRange(None, 9, 1e-6, 3, 1e-6)]
    assert judged(table, 0.001).loc[0, "verdict"] == "unclear"
    assert judged(table, 0.001, quiet).loc[0, "verdict"] == "slower"


def test_rounds_replace_as_much_of_the_recorded_noise_as_they_show() -> None:
    """Of rounds whose variance is τ²/4 half of τ² is left: τ²/2 + (τ²/4)(1/8 + 1/8) = 9τ²/16."""
    scale, shape, _ = noise_at(RANGES, np.array([60.0]))
    reach = scale[0] * np.sqrt(14 / 16 / 4)
    rounds = 60 * np.exp([reach, -reach] * 4)
    df = (9 / 16) ** 2 / ((1 / 16) ** 2 / 14 + (1 / 2) ** 2 / shape[0])
    high = np.exp(quantile(0.025, df) * 0.75 * scale[0])
    assert first((rounds, rounds)).high == pytest.approx(high, rel=1e-9)


@pytest.mark.parametrize("persists", [0.3, 1.0])
def test_alarms_are_as_rare_as_said_though_noise_persists_through_a_process(
    persists: float,
) -> None:
    """As a share of the recorded noise: the rest differs between rounds and is seen there."""
    dice, alarms = np.random.default_rng(11), 0
    times = np.geomspace(5, 5000, 200)
    scale, shape, _ = noise_at(RANGES, times)
    spread = np.maximum(scale * np.sqrt((1 - persists) / 2), 0.0005)
    for _ in range(10):
        apart = scale * np.sqrt(persists) * dice.standard_t(shape)
        sides = [times[:, None] * np.exp(offset[:, None] + spread[:, None] *
                 dice.standard_normal((200, ROUNDS))) for offset in (0 * apart, apart)]  # fmt: skip
        found = judged(points(*zip(*sides, strict=True)))
        alarms += bool(found["verdict"].isin(["slower", "faster"]).any())
    assert alarms <= 2


def test_faster_is_slower_the_other_way_round() -> None:
    base, head = [50.0, 50.1, 49.9, 50.05], [47.0, 47.1, 46.9, 47.05]
    ahead, back = first((base, head)), first((head, base))
    assert (ahead.verdict, back.verdict) == ("faster", "slower")
    assert (ahead.ratio, ahead.low, ahead.high) == pytest.approx(
        (1 / back.ratio, 1 / back.high, 1 / back.low)
    )
    assert (ahead.regression, back.regression) == (False, True)


def by_range(factor: float) -> dict[str, dict[str, str]]:
    """A thousand points with the recorded noise of two sweeps, HEAD slower by a factor."""
    times = np.geomspace(5, 2000, 1000)
    scale, df, _ = noise_at(RANGES, times)
    head = times * factor * np.exp(scale * np.random.default_rng(7).standard_t(df))
    pairs = zip(times[:, None], head[:, None], strict=True)
    table = ranges_table(judged(points(*pairs)))
    return {line[0]: dict(zip(table.heads, line, strict=True)) for line in table.lines}


def test_equal_sweeps_have_a_twentieth_of_their_points_beyond_the_floor() -> None:
    found = by_range(1.0)
    assert list(found) == ["below 20 µs", "20 to 50 µs", "50 to 100 µs", "100 to 200 µs",
                           "200 to 500 µs", "500 µs and more", "20 µs and more"]  # fmt: skip
    last = found["20 µs and more"]
    low, high = map(float, last["interval"].split("–"))
    assert low <= 1 <= high
    beyond, expected = float(last["beyond the floor"]), float(last["expected"])
    assert abs(beyond - expected) < 4 * expected**0.5
    counts = [int(line["points"]) for line in found.values()]
    assert (sum(counts[:-1]), sum(counts[1:-1])) == (1000, counts[-1])


def test_a_slowdown_that_no_single_point_proves_shows_in_the_mean() -> None:
    last = by_range(1.004)["20 µs and more"]
    assert float(last["interval"].split("–")[0]) > 1.003
    assert float(last["beyond the floor"]) > 2 * float(last["expected"])


def test_a_fit_finds_the_scale_and_tails_that_were_drawn() -> None:
    dice = np.random.default_rng(8)
    scale, df = fit(0.003 * dice.standard_t(3, 4000))
    assert scale == pytest.approx(0.003, rel=0.05)
    assert df in (3.0, 4.0)
    assert fit(0.003 * dice.standard_normal(4000))[1] >= 15
