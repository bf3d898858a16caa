"""Time ratios by time range: a card alone against the same card beside others."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from analysis.comparison import noise
from analysis.comparison.ranges import ranges_table
from analysis.comparison.verdicts import Asked, judge
from tests.analysis.compared import lines, rounds, run
from tests.analysis.rounded import pair


def by_range(factor: float) -> dict[str, dict[str, str]]:
    """A thousand points with the recorded noise of two sweeps, HEAD slower by a factor."""
    dice, pairs = np.random.default_rng(7), []
    ranges = noise.recorded()[1]
    for time in np.geomspace(5, 2000, 1000):
        scale, df, _ = (float(v[0]) for v in noise.at(ranges, np.array([time])))
        shift = scale * dice.standard_t(df)
        pairs.append(pair([time], [time * factor * float(np.exp(shift))]))
    table = ranges_table(judge(pairs, Asked(), ranges))
    return {line[0]: dict(zip(table.heads, line, strict=True)) for line in table.lines}


def test_equal_sweeps_have_a_twentieth_of_their_points_beyond_the_floor() -> None:
    told = by_range(1.0)
    assert list(told) == ["below 20 µs", "20 to 50 µs", "50 to 100 µs", "100 to 200 µs",
                          "200 to 500 µs", "500 µs and more", "20 µs and more"]  # fmt: skip
    last = told["20 µs and more"]
    low, high = map(float, last["interval"].split("–"))
    assert low <= 1 <= high
    beyond, expected = float(last["beyond the floor"]), float(last["expected"])
    assert abs(beyond - expected) < 4 * expected**0.5
    points = [int(line["points"]) for line in told.values()]
    assert sum(points[:-1]) == 1000
    assert sum(points[1:-1]) == points[-1]


def test_a_slowdown_that_no_single_point_proves_shows_in_the_mean() -> None:
    last = by_range(1.004)["20 µs and more"]
    assert float(last["interval"].split("–")[0]) > 1.003
    assert float(last["beyond the floor"]) > 2 * float(last["expected"])


def test_compare_writes_it(tmp_path: Path) -> None:
    assert run(tmp_path, rounds(1), rounds(2)) == 0
    assert "Time of HEAD / BASE, by time range" in (tmp_path / "out" / "compare.md").read_text()
    assert run(tmp_path, rounds(1), rounds(2, {"fused": 1.2})) == 1
    far = {line["kernel"] for line in lines(tmp_path) if line["beyond_floor"] == "true"}
    assert far == {"fused"}
