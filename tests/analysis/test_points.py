"""A point holds what one visit measured together; means are geometric, over the units averaged."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from analysis.estimate import log_reach
from analysis.load import load
from analysis.points import geomean, pairs, points, ratios
from experiments.data.rows import Row
from tests.analysis.plausible import interpreted, row, timed, write


def of(tmp_path: Path, rows: list[Row]) -> pd.DataFrame:
    return points(load(write(tmp_path, rows)))


def beside(by_width: Mapping[int, Sequence[float]], **changes: Any) -> list[Row]:
    """auto at 100 µs, a copy at 50, and torch at so many times that in each round, by width."""
    return [
        row(kernel, n, time_us=us, round=i, **changes)
        for n, each in by_width.items()
        for i, ratio in enumerate(each)
        for kernel, us in (("auto", 100.0), ("copy", 50.0), ("torch", 100.0 * ratio))
    ]


def line(found: pd.DataFrame, over: str = "peers") -> pd.Series:
    return ratios(found, over).squeeze()


@pytest.mark.parametrize(("first", "value"), [([], 2.0), (["clock: 900 MHz"], math.sqrt(2 * 8))])
def test_a_suspect_row_counts_only_where_its_point_has_no_others(
    tmp_path: Path, first: list[str], value: float
) -> None:
    slow = row("torch", 1024, time_us=80.0, round=1, suspect=["throttled: hot", "trend: up"])
    rows = [*timed("auto", 10.0, 10.0), row("torch", 1024, time_us=20.0, suspect=first), slow]
    assert line(of(tmp_path, rows))["ratio"] == pytest.approx(value)


def test_a_ratio_divides_times_of_one_visit_and_never_of_two(tmp_path: Path) -> None:
    # the card slows down threefold; auto is always twice as fast, with no round beside quack's last
    rows = [*timed("auto", 50.0, 150.0, 450.0), *timed("quack", 100.0, 300.0, 900.0, 1.0)]
    rows += timed("torch", 10.0, sweep="another")  # no neighbour of these, nor by another timer
    rows += timed("torch", 10.0, timer="graph")
    found = of(tmp_path, rows)
    assert pairs(found, "quack")["ratio"].tolist() == [2.0, 2.0, 2.0]
    one = line(found)
    assert (one["kernel"], one["ratio"]) == ("quack", 2.0)
    assert one["low"] == pytest.approx(2.0, rel=0.05)
    assert "torch" not in set(found["kernel"])
    assert len(one["labels"]) == 6


def test_rows_without_a_time_and_stale_ones_count_for_nothing(tmp_path: Path) -> None:
    rows = [row("auto", 1024, time_us=900.0, key="older"), *timed("auto", 100.0)]
    rows += [*timed("torch", 150.0), interpreted("quack", 1024)]
    rows += [row("liger", 1024, time_us=None, status="crashed")]
    found = of(tmp_path, rows)
    assert line(found, "torch")["ratio"] == pytest.approx(1.5)
    assert set(found["kernel"]) == {"auto", "torch"}


def test_the_roof_is_the_faster_copy_and_beating_it_is_flagged(tmp_path: Path) -> None:
    rows = timed("auto", 100.0, 100.0, 100.0) + timed("torch", 150.0, 150.0, 150.0)
    copies = timed("copy", 98.0, 98.0, 98.0) + timed("copy_triton", 97.0, 97.0, 97.0)
    found = of(tmp_path, rows + copies)
    assert [line(found, over)["kernel"] for over in ("roof", "peers", "torch")] == [
        *("copy_triton", "torch", "torch")
    ]
    assert ratios(found, "quack").empty
    share = ratios(found, "roof").iloc[0]
    assert share["ratio"] == pytest.approx(0.97)
    assert not share["above_roof"]
    beaten = of(tmp_path / "2", rows + timed("copy", 120.0, 120.0, 120.0))
    assert ratios(beaten, "roof").iloc[0]["above_roof"]
    # in a mean such a time counts as the roof's: 150 over 120
    means = [geomean(ratios(one)).value for one in (found, beaten)]
    assert means == pytest.approx([1.5, 1.25])


def test_the_mean_is_geometric_and_its_interval_is_over_rounds(tmp_path: Path) -> None:
    # the points are far apart, which says nothing of the mean; the rounds agree to a thousandth
    rows = beside({256: [2.0, 2.002, 1.998], 4096: [8.0, 8.008, 7.992]})
    mean = geomean(ratios(of(tmp_path, rows)))
    assert (mean.points, mean.units) == (2, "rounds")
    assert mean.value == pytest.approx(4.0)
    reach = 4.3027 * math.sqrt(2 / 2) * 1e-3 / math.sqrt(3)  # t, s and √R by hand
    assert math.log(mean.high / mean.value) == pytest.approx(reach, rel=0.01)
    single = of(tmp_path / "single", beside({256: [2.0], 4096: [2.0]}))
    assert geomean(ratios(single, "quack")) is None
    mean = geomean(ratios(single))
    assert mean.units == "samples"
    assert (mean.low, mean.high) == pytest.approx((2 * 0.99 / 1.01, 2 * 1.01 / 0.99))


def test_of_several_recordings_the_interval_is_over_them(tmp_path: Path) -> None:
    hosts = (1.1, 1.2, 1.25)
    for i, host in enumerate(hosts):  # folders below one, as three recordings lie
        by_width = {256: [host, host * 1.01], 4096: [host, host * 0.99]}
        write(tmp_path / f"{i}", beside(by_width, sweep=f"limits-{i}"))
    mean = geomean(ratios(points(load(tmp_path))))
    assert (mean.recordings, mean.units) == (3, "recordings")
    assert mean.value == pytest.approx((1.1 * 1.2 * 1.25) ** (1 / 3), rel=1e-4)
    reach = mean.high / mean.value
    assert reach == pytest.approx(math.exp(log_reach(hosts)), rel=0.01)
    # of half of the points a fourth has its part in the mean, and none in the interval
    write(tmp_path / "part", beside({256: [1.19]}, sweep="part"))
    mean = geomean(ratios(points(load(tmp_path))))
    assert (mean.recordings, mean.high / mean.value) == (3, pytest.approx(reach, rel=1e-6))


def test_where_recordings_drew_their_own_widths_the_interval_is_over_widths(tmp_path: Path) -> None:
    # both recordings agree on the one width that they share, which says nothing of the others
    rows = beside({1024: [1.1], 300: [1.0], 500: [1.3]}, sweep="r0")
    mean = geomean(ratios(of(tmp_path, rows + beside({1024: [1.1], 700: [1.6]}, sweep="r1"))))
    assert (mean.units, mean.points) == ("widths", 4)
    assert mean.value == pytest.approx((1.1 * 1.0 * 1.3 * 1.6) ** 0.25)
    logs = [math.log(x) for x in (1.1, 1.0, 1.3, 1.6)]
    middle = sum(logs) / 4
    error = math.sqrt(sum((x - middle) ** 2 for x in logs) / 3 / 4)  # of a mean of four widths
    assert math.log(mean.high / mean.value) == pytest.approx(3.182 * error, rel=0.01)
    speeds = {256: [1.1], 300: [1.0], 500: [1.3], 700: [1.6], 1024: [1.2]}
    both = beside(speeds, sweep="r2") + beside(speeds, sweep="r3")
    lines = ratios(of(tmp_path / "same", both))
    assert [geomean(lines, wider).units for wider in (False, True)] == ["recordings", "widths"]


def test_cards_that_shared_the_points_of_a_sweep_made_one_recording(tmp_path: Path) -> None:
    rows = [*beside({256: [2.0], 4096: [1.1]}, sweep="r0")]
    rows += beside({256: [2.02], 4096: [1.12]}, sweep="r1")
    for card, by_width in enumerate(({256: [2.01]}, {4096: [1.11]})):
        rows += beside(by_width, sweep="r2", card=card, environment={"mark": "ab"[card] * 8})
    mean = geomean(ratios(of(tmp_path, rows)))
    assert (mean.recordings, mean.units) == (3, "recordings")


def test_rows_of_two_sets_never_meet(tmp_path: Path) -> None:
    sets = {"a": [1024, 2048], "b": [1024, 2048], "c": [1024], "d": [777], "e": [1024, 2048, 4096]}
    for name, widths in sets.items():
        folder, kernels = tmp_path / name / "sweep", ["auto", "torch", "quack"][: 3 - (name == "a")]
        times = [90.0] if name == "e" else [90.0, 90.0]
        places = [(one, n) for one in kernels for n in widths]
        write(folder, [r for one, n in places for r in timed(one, *times, cols=n, sweep=name)])
        (folder / "sweep.json").write_text('{"sweep": "s"}')
    frame = load(tmp_path)
    # of the sets with more public kernels the one with more visits, and another at other widths
    assert points(frame).groupby("tuned")["set"].agg(set).to_dict() == {True: {"b"}, False: {"d"}}
