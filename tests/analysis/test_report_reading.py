"""What a page's script reads: rows as short texts, points as shares, JSON that stays JSON."""

from __future__ import annotations

import json

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis import style
from analysis.figures.page import Canvas, Mark
from analysis.report.facts import HEADS, facts
from analysis.report.inline import SETTINGS, inlined
from analysis.report.reading import Readings, script_json
from experiments.data.metrics import derive
from tests.analysis.evidence import counters
from tests.analysis.plausible import row, unsupported

matplotlib = pytest.importorskip("matplotlib")


def told(of: dict[str, object]) -> dict[str, str]:
    return {head: text for head, text in zip(HEADS, facts(of), strict=True) if text}


@given(st.text())
def test_no_text_ends_the_element_that_holds_it(text: str) -> None:
    written = script_json({"text": text + "</script><!--"})
    assert "<" not in written
    assert json.loads(written) == {"text": text + "</script><!--"}


def test_a_row_is_told_with_its_unit_and_interval() -> None:
    rows = [row("copy", 1024, time_us=10.0), row("online", 1024, time_us=12.5)]
    seen = told(derive(rows)[1] | {"variant": "online"})
    assert seen["M×N"] == "4096×1024"
    assert seen["time"] == "12.50 µs (12.38 to 12.62)"
    assert seen["bandwidth"] == f"{2 * 4096 * 1024 * 4 / 12.5 / 1e3:,.0f} GB/s"
    assert seen["of the roof"] == "80.0 %"
    assert "reason" not in seen


def test_a_row_above_the_roof_says_that_it_is_no_win() -> None:
    rows = [row("copy", 1024, time_us=10.0), row("online", 1024, time_us=5.0)]
    assert told(derive(rows)[1])["of the roof"] == "200.0 % (above it: not a win)"


def test_failures_records_and_missing_numbers_are_told_too() -> None:
    seen = told(pd.DataFrame(derive([unsupported("fused", 65536)])).to_dict("records")[0])
    assert (seen["status"], seen["reason"]) == ("unsupported", "the row does not fit on chip")
    assert "time" not in seen
    counted = told(counters("online", 2048, 4096, 1.25, 0.9).model_dump())
    assert counted["DRAM reads"] == "1.250 MN (model 2.000 MN)"
    assert counted["time"] == "100.0 µs under the profiler"


def test_a_point_lies_where_it_is_drawn_in_the_cut_picture() -> None:
    with matplotlib.rc_context(style.theme() | SETTINGS):
        sheet = Canvas((4, 2))
        ax = sheet.add_axes((0.5, 0.5, 0.25, 0.25))
        ax.set_xlim(0, 1)
        ax.set_ylim(0, 1)
        ax.axis("off")
        drawing = inlined(sheet, "A-fig1", "an empty pair of axes")
        marks = [Mark(ax, 0.0, 0.0, {"kernel": "a"}), Mark(ax, 1.0, 1.0, {"kernel": "a"})]
        readings = Readings()
        readings.add("A-fig1", [(drawing.place(*mark.place), mark) for mark in marks])
    x, y, width, height = drawing.frame
    (series,) = readings.pictures["A-fig1"]
    low, high = series["points"]
    assert low[:2] == pytest.approx([(0.5 - x) / width, (0.5 - y) / height], abs=1e-4)
    assert high[:2] == pytest.approx([(0.75 - x) / width, (0.25 - y) / height], abs=1e-4)


def test_a_row_drawn_in_two_pictures_is_kept_once() -> None:
    readings = Readings()
    sheet = Canvas((4, 2))
    mark = Mark(sheet.add_axes((0, 0, 1, 1)), 0.5, 0.5, {"kernel": "online"})
    readings.add("A-fig2", [((0.1, 0.2), mark)])
    readings.add("D-fig1", [((0.3, 0.4), mark)])
    assert len(readings.rows) == 1
    assert readings.count("D-fig1") == 1
