"""The tables `limits` and `limits_summary`: who is fastest where, and what it comes to."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest

from analysis.format import Cell, NamedTable
from analysis.tables import tables_of
from analysis.tables.comparisons import limits as limits_tables
from analysis.tables.comparisons import limits_summary
from experiments.data.rows import Row
from tests.analysis.limits.rows import FEWER, limits
from tests.analysis.material import material_of
from tests.analysis.plausible import paper, row


def tables(tmp_path: Path, rows: list[Row]) -> list[NamedTable]:
    return limits_tables(material_of(tmp_path, rows))


def summary(tmp_path: Path, rows: list[Row]) -> dict[tuple[str, str], dict[str, str]]:
    """The summary's lines by timer and by which points they are over."""
    [one] = limits_summary(material_of(tmp_path, rows))
    heads = one.table.heads
    return {(line[0], line[1]): dict(zip(heads, line, strict=True)) for line in one.table.lines}


def point(own: float, peer: float, copy: float, cols: int = 4096) -> list[Row]:
    times = {"auto": own, "torch": peer, "copy": copy}
    return [row(k, cols, time_us=t, round=i) for k, t in times.items() for i in range(3)]


def test_a_line_a_shape_and_dtype_and_a_table_a_timer(tmp_path: Path) -> None:
    made = tables(tmp_path, limits(FEWER))
    assert [one.stem for one in made] == [f"limits-nvidia-h200-{t}" for t in ("events", "graph")]
    for one in made:
        assert len(one.table.lines) == len(FEWER) * 3
        lines = [dict(zip(one.table.heads, line, strict=True)) for line in one.table.lines]
        wide = next(x for x in lines if (x["M×N"], x["dtype"]) == ("4096×65536", "float32"))
        assert wide["best peer"] == "quack"
        assert wide["launch"] == "4096×4"
        assert "~" not in wide["× best peer"]
        assert next(x for x in lines if x["M×N"] == "1×131072")["liger"] == "–"
        assert next(x for x in lines if x["M×N"] == "1×131072")["× best peer"].endswith("~")


def test_the_fastest_softmax_is_bold_and_a_copy_never(tmp_path: Path) -> None:
    for own, peer, fastest in ((100.0, 120.0, "auto"), (100.0, 90.0, "torch")):
        [one] = tables(tmp_path / fastest, point(own, peer, 80.0))
        [line] = one.table.lines
        cells = dict(zip(one.table.heads, line, strict=True))
        strong = {k for k, v in cells.items() if isinstance(v, Cell) and v.strong}
        assert strong == {fastest}
        assert cells["× best peer"] == f"{peer / own:.3f}"
        assert cells["of roof"] == "80.0 %"


def test_a_time_above_the_roof_is_marked(tmp_path: Path) -> None:
    [one] = tables(tmp_path, point(100.0, 150.0, 130.0))
    assert one.table.lines[0][-1] == "130.0 %!"
    assert one.data is not None
    assert one.data.lines[0][-1] == "true"


def test_the_csv_has_every_number_with_its_interval(tmp_path: Path) -> None:
    [one] = tables(tmp_path, point(100.0, 150.0, 95.0))
    assert one.data is not None
    [line] = list(csv.DictReader(io.StringIO(one.data.csv())))
    assert (line["rounds"], line["best_peer"], line["moved_bytes"]) == ("3", "torch", "134217728")
    assert float(line["best_ratio"]) == pytest.approx(1.5)
    assert float(line["best_low"]) <= 1.5 <= float(line["best_high"])
    assert float(line["roof_ratio"]) == pytest.approx(0.95)
    assert float(line["auto_us"]) == 100.0


def test_the_summary_tells_means_of_large_and_short_points_apart(tmp_path: Path) -> None:
    rows = point(10.0, 40.0, 9.5, cols=256) + point(100.0, 121.0, 95.0, cols=16384)
    found = summary(tmp_path, rows)
    timer = "CUDA events, cold cache"
    assert found[timer, "all"]["count"] == "2"
    assert found[timer, "all"]["× best peer"].startswith("2.200 (")  # √(4 · 1.21)
    assert found[timer, "256 MB and more"]["× best peer"].startswith("1.210 (")
    assert found[timer, "below 25 µs"]["× best peer"].startswith("4.000 (")
    assert found[timer, "all"]["least × best peer"] == "1.210 at 4096×16384 float32 (torch)"
    assert found[timer, "all"]["behind"] == "0"
    assert found[timer, "all"]["least of roof"].startswith("95.0 % at 4096×")


def test_the_summary_counts_defeats_and_no_win_over_the_roof(tmp_path: Path) -> None:
    rows = point(100.0, 90.0, 85.0) + point(10.0, 9.7, 9.5, cols=256)
    rows += point(100.0, 900.0, 130.0, cols=8192)
    found = summary(tmp_path, rows)["CUDA events, cold cache", "all"]
    assert (found["count"], found["behind"]) == ("3", "1")
    # (0.9 · 0.97 · 900/130)^⅓: 100 µs are above the roof, whose copy takes 130
    assert found["× best peer"].startswith("1.822 (")
    [one] = limits_summary(material_of(tmp_path / "2", rows))
    assert "1 points. There the copy's time" in one.table.notes[-1]


def test_rows_without_auto_say_what_is_missing_in_one_line(tmp_path: Path) -> None:
    made, missing = tables_of(material_of(tmp_path, paper()), ("limits", "limits_summary"))
    assert made == []
    for text in missing:
        assert " needs timed rows of auto" in text
        assert "\n" not in text
