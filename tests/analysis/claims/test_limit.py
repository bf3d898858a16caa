"""How near the limit: a rival over auto, at the points a claim names, by rounds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from analysis.claims import Judgement
from analysis.claims.limit import Limit
from experiments.data.rows import Row
from tests.analysis.claims.bench import judgement
from tests.analysis.plausible import row


def point(own: float, cols: int = 16384, timer: str = "events", **times: float) -> list[Row]:
    """auto and others at one shape, three rounds."""
    each = {"auto": own} | times
    return [
        row(k, cols, time_us=t, round=i, timer=timer, key=f"{k}-{cols}-{timer}")
        for k, t in each.items()
        for i in range(3)
    ]


def limit(expect: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"limit": {"over": "peers", "timer": "events"} | fields, "expect": expect}


def judged(tmp_path: Path, rows: list[Row], check: dict[str, Any]) -> Judgement:
    return judgement(tmp_path, rows, check, source="this project")


@pytest.mark.parametrize(
    ("least", "verdict"), [(1.15, "supported"), (1.2, "inconclusive"), (1.25, "refuted")]
)
def test_the_best_peer_decides_and_its_interval_with_it(
    tmp_path: Path, least: float, verdict: str
) -> None:
    rows = point(100.0, torch=200.0, quack=120.0, copy=95.0)
    found = judged(tmp_path, rows, limit({"at_least": least}))
    assert found.value == pytest.approx(1.2)
    assert found.verdict == verdict


def test_each_point_has_to_hold_and_the_worst_is_named(tmp_path: Path) -> None:
    rows = point(100.0, quack=120.0) + point(100.0, cols=8192, quack=90.0)
    found = judged(tmp_path, rows, limit({"at_least": 0.98}))
    assert found.verdict == "refuted"
    assert "4096×8192 float32" in found.measured
    mean = judged(tmp_path / "2", rows, limit({"at_least": 1.03}, take="geomean"))
    assert (mean.verdict, mean.value) == ("supported", pytest.approx((1.2 * 0.9) ** 0.5))


@pytest.mark.parametrize(
    ("narrowed", "value"),
    [({"moved": 256_000_000}, 1.2), ({"faster_than": 25}, 2.0), ({"slower_than": 25}, 1.2),
     ({"where": {"cols": {"to": 1024}}}, 2.0)],
)  # fmt: skip
def test_points_are_narrowed_by_bytes_by_time_and_by_shape(
    tmp_path: Path, narrowed: dict[str, Any], value: float
) -> None:
    rows = point(100.0, quack=120.0) + point(10.0, cols=256, quack=20.0)
    found = judged(tmp_path, rows, limit({"above": 1}, **narrowed))
    assert found.value == pytest.approx(value)
    assert " over " not in found.measured  # one point of the two


def test_a_gap_is_in_microseconds(tmp_path: Path) -> None:
    rows = point(10.0, cols=256, torch=30.0, copy=9.8)
    check = limit({"at_least": -0.5}, over="copy", gap=True, faster_than=25)
    assert judged(tmp_path, rows, check).value == pytest.approx(-0.2)


def test_timers_are_judged_apart(tmp_path: Path) -> None:
    rows = point(100.0, quack=120.0) + point(100.0, timer="graph", quack=90.0)
    assert judged(tmp_path, rows, limit({"above": 1})).verdict == "supported"
    found = judged(tmp_path / "2", rows, limit({"above": 1}, timer="graph"))
    assert found.verdict == "refuted"


def test_what_rows_lack_is_named_with_the_command_that_brings_it(tmp_path: Path) -> None:
    found = judged(tmp_path, point(100.0, torch=120.0), limit({"above": 1}, over="quack"))
    assert found.verdict == "not testable here"
    assert "needs timed rows of auto beside quack by events" in found.why
    assert found.findings[0].seen.needs == "make sweep EXPERIMENT=limits"


def test_a_mean_holds_what_is_above_the_roof_to_it_and_each_does_not(tmp_path: Path) -> None:
    rows = point(100.0, torch=120.0, copy=95.0)
    rows += point(100.0, cols=8192, torch=900.0, copy=150.0)
    mean = judged(tmp_path, rows, limit({"above": 1}, take="geomean"))
    assert mean.value == pytest.approx((1.2 * 900 / 150) ** 0.5)
    each = judged(tmp_path / "2", rows, limit({"above": 1}))
    assert "over 2 points" in each.measured


def test_a_rival_that_nobody_knows_is_refused() -> None:
    with pytest.raises(ValueError, match="no rival 'naive'; known are peers, copy, torch"):
        Limit.model_validate({"over": "naive", "timer": "events"})


def test_rows_of_the_judgement_are_those_of_the_point(tmp_path: Path) -> None:
    rows = point(100.0, quack=120.0, torch=300.0)
    found = judged(tmp_path, rows, limit({"above": 1}))
    assert {(r["kernel"], r["time_us"]) for r in found.rows} == {("auto", 100.0), ("quack", 120.0)}
