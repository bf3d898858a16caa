"""Means are geometric, their unit is the round, and no time above the roof is a win in them."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from analysis.limits import LimitPoint as Point
from analysis.limits import best, geomean, named, points_of, worst
from tests.analysis.drawing import frame_of
from tests.analysis.plausible import row


def made(tmp_path: Path, ratios: dict[int, list[float]], roof: float = 50.0) -> list[Point]:
    """Points by width: torch's time over auto's in each round."""
    rows = [
        one
        for n, each in ratios.items()
        for i, ratio in enumerate(each)
        for one in (row("auto", n, time_us=100.0, round=i), row("copy", n, time_us=roof, round=i),
                    row("torch", n, time_us=100.0 * ratio, round=i))
    ]  # fmt: skip
    return points_of(frame_of(tmp_path, rows))


def test_the_mean_is_geometric_and_its_interval_is_of_rounds(tmp_path: Path) -> None:
    # the points are far apart, which says nothing of the mean; the rounds agree to a thousandth
    found = made(tmp_path, {256: [2.0, 2.002, 1.998], 4096: [8.0, 8.008, 7.992]})
    mean = geomean(found, best)
    assert mean is not None
    assert mean.value == pytest.approx(4.0)
    assert mean.rounds == 3
    reach = 4.3027 * math.sqrt(2 / 2) * 1e-3 / math.sqrt(3)  # t, s and √R by hand
    assert math.log(mean.high / mean.value) == pytest.approx(reach, rel=0.01)
    assert mean.low < 4.0 < mean.high


def test_a_single_round_has_the_interval_of_its_own_samples(tmp_path: Path) -> None:
    mean = geomean(made(tmp_path, {256: [2.0], 4096: [2.0]}), best)
    assert mean is not None
    assert (mean.low, mean.high) == pytest.approx((2 * 0.99 / 1.01, 2 * 1.01 / 0.99))


def test_points_with_fewer_rounds_count_in_the_mean(tmp_path: Path) -> None:
    mean = geomean(made(tmp_path, {256: [2.0, 2.0, 2.0], 4096: [8.0]}), best)
    assert mean is not None
    assert mean.value == pytest.approx(4.0)


def test_a_time_above_the_roof_counts_as_the_roof(tmp_path: Path) -> None:
    below = geomean(made(tmp_path, {256: [2.4], 4096: [2.4]}), best)
    above = geomean(made(tmp_path / "2", {256: [2.4, 2.4], 4096: [2.4, 2.4]}, roof=200.0), best)
    assert below is not None
    assert above is not None
    assert (below.value, above.value) == pytest.approx((2.4, 1.2))  # 240 µs over 100, over 200


def test_the_worst_point_is_the_one_with_the_least_ratio(tmp_path: Path) -> None:
    lowest = worst(made(tmp_path, {256: [2.0], 1024: [0.9], 4096: [1.5]}), named("torch"))
    assert lowest is not None
    point, ratio = lowest
    assert (point.cols, ratio.value) == (1024, pytest.approx(0.9))


def test_a_rival_that_was_nowhere_timed_has_no_mean(tmp_path: Path) -> None:
    found = made(tmp_path, {256: [2.0]})
    assert geomean(found, named("quack")) is None
    assert worst(found, named("quack")) is None
