"""Parts of the page: pictures, readings, texts, standings."""

from __future__ import annotations

import json
import math
import re
from xml.etree import ElementTree

import matplotlib
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.figures.page import Canvas, Mark
from analysis.figures.style import theme
from analysis.report.facts import HEADS, facts
from analysis.report.figures import Readings, script_json
from analysis.report.inline import (
    DARK_PAPER,
    LEGIBLE,
    SETTINGS,
    Inlined,
    contrast,
    dark_of,
    declarations,
    inlined,
)
from analysis.report.page import ticks
from analysis.report.results import Results, results_of, standings_table, statuses_of
from experiments.data.metrics import derive
from experiments.data.rows import Row
from tests.analysis.plausible import interpreted, row, unsupported
from tests.analysis.records import counters

H200 = "NVIDIA H200"


@given(st.from_regex(r"#[0-9a-f]{6}", fullmatch=True))
def test_ink_is_legible_on_dark_paper_and_paper_stays_dark(color: str) -> None:
    dark = dark_of(color)
    assert re.fullmatch("#[0-9a-f]{6}", dark)
    seen = contrast(dark, DARK_PAPER)
    assert seen >= LEGIBLE or (contrast(color, "#ffffff") < 2 and seen < 2.5)


def drawn(text: str = "a <b> & $x$") -> Inlined:
    with matplotlib.rc_context(theme() | SETTINGS):
        canvas = Canvas((4, 2))
        canvas.text(0.02, 0.95, "title")
        ax = canvas.add_axes((0.2, 0.2, 0.6, 0.6))
        ax.plot([0, 1], [0, 1], marker="o", color="#d55e00", label="line", gid="rows:torch")
        ax.set_title(text)
        return inlined(canvas, "D-fig1", "what it shows", ["title"])


def test_a_pictures_ids_colors_and_texts_are_its_own() -> None:
    picture = drawn()
    root = ElementTree.fromstring(picture.svg)
    ids = {e.attrib["id"] for e in root.iter() if "id" in e.attrib}
    assert all(name.startswith("D-fig1-") for name in ids)
    used = set(re.findall(r"(?:url\(|href=\")#([^)\"]+)", picture.svg))
    assert used
    assert used <= ids
    assert "<style" not in picture.svg
    assert "metadata" not in picture.svg
    assert not re.findall(r"(?<!url\()#[0-9a-f]{6}\b", picture.svg)
    assert "var(--c-d55e00)" in picture.svg
    assert "--c-d55e00:light-dark(#d55e00," in declarations(picture.colors)
    words = ["".join(e.itertext()) for e in root.iter() if e.tag.endswith("}text")]
    assert "a <b> & $x$" in words
    assert "title" not in words  # it stands beside
    assert root.attrib["aria-label"] == "what it shows"


def test_a_point_lies_where_it_is_drawn_and_its_row_is_kept_once() -> None:
    with matplotlib.rc_context(theme() | SETTINGS):
        canvas = Canvas((4, 2))
        ax = canvas.add_axes((0.5, 0.5, 0.25, 0.25))
        ax.set(xlim=(0, 1), ylim=(0, 1))
        ax.axis("off")
        drawing = inlined(canvas, "A-fig1", "an empty pair of axes")
        marks = [Mark(ax, 0.0, 0.0, {"kernel": "a"}), Mark(ax, 1.0, 1.0, {"kernel": "a"})]
        readings = Readings()
        for anchor in ("A-fig1", "D-fig1"):
            readings.add(anchor, [(drawing.place(*mark.place), mark) for mark in marks])
    x, y, width, height = drawing.frame
    (series,) = readings.pictures["A-fig1"]
    low, high = series["points"]
    assert low[:2] == pytest.approx([(0.5 - x) / width, (0.5 - y) / height], abs=1e-4)
    assert high[:2] == pytest.approx([(0.75 - x) / width, (0.25 - y) / height], abs=1e-4)
    assert len(readings.rows) == 1


def test_a_point_above_the_roof_and_a_record_of_counters_say_what_they_are() -> None:
    above = derive([row("copy", 1024, time_us=10.0), row("online", 1024, time_us=5.0)])[1]
    seen = dict(zip(HEADS, facts(above), strict=True))
    assert seen["time"] == "5.000 µs (4.950 to 5.050)"
    assert seen["of the roof"] == "200.0 % (above it: not a win)"
    seen = dict(zip(HEADS, facts(above | {"stop_reason": "time_limit"}), strict=True))
    assert seen["time"] == "5.000 µs (4.950 to 5.050), not converged: time limit"
    counted = counters("online", 2048, 4096, 1.25, 0.9).model_dump()
    seen = dict(zip(HEADS, facts(counted), strict=True))
    assert seen["DRAM reads"] == "1.250 MN (model 2.000 MN)"
    assert seen["time"] == "100.0 µs under the profiler"


@given(st.text())
def test_no_text_becomes_markup_or_ends_the_element_that_holds_it(text: str) -> None:
    bare = ticks(text).replace("<code>", "").replace("</code>", "")
    assert not set(bare) & set("<>\"'")
    written = script_json({"text": text + "</script><!--"})
    assert "<" not in written
    assert json.loads(written) == {"text": text + "</script><!--"}


def framed(rows: list[Row]) -> pd.DataFrame:
    frame = pd.DataFrame(derive(rows))
    return frame.assign(above_roof=frame["above_roof"].eq(True))


def results(rows: list[Row], gpu: str = H200) -> Results:
    [found] = results_of(framed(rows), gpu)
    return found


def timed(**times: tuple[float | None, ...]) -> Results:
    """Of rows of 4096 × 8192, 16384, …, all beyond the H200's L2."""
    return results(
        [
            unsupported(kernel, 8192 * 2**i) if t is None else row(kernel, 8192 * 2**i, time_us=t)
            for kernel, each in times.items()
            for i, t in enumerate(each)
        ]
    )


def test_a_share_is_the_geometric_mean_of_time_ratios() -> None:
    best = timed(copy=(10, 10), online=(20, 40), naive=(80, 80)).standings[0]
    assert best["variant"] == "online"
    assert best["share"] == pytest.approx(math.sqrt(0.5 * 0.25))
    assert best["over_naive"] == pytest.approx(math.sqrt(4 * 2))
    assert math.isnan(best["over_torch"])
    assert (best["top"]["fraction_of_roof"], best["top"]["cols"]) == (pytest.approx(0.5), 8192)


def test_a_time_shorter_than_the_roofs_is_no_win() -> None:
    found = timed(copy=(10, 10), online=(5, 20), naive=(80, 80))
    above = found.standings[0]
    assert above["top"]["cols"] == 16384  # a point above the roof is nobody's
    assert above["share"] == pytest.approx(math.sqrt(1 * 0.5))
    assert above["over_naive"] == pytest.approx(math.sqrt(16 * 4))  # times are as measured
    assert found.shorter == 1
    table = standings_table(found)
    assert table
    assert "1 of these times are shorter than the roof's" in table.notes[1]


def test_operations_are_not_averaged() -> None:
    rows = [row(k, 16384, time_us=t) for k, t in (("copy", 10), ("online", 20), ("torch", 40))]
    rows += [
        row(k, 16384, time_us=t, operation="softmax_backward", roof="copy")
        for k, t in (("backward", 11), ("backward_torch", 22))
    ]
    softmax, gradient = sorted(results_of(framed(rows), H200), key=lambda one: one.operation)
    assert [one["variant"] for one in softmax.standings] == ["online", "torch"]
    assert [one["variant"] for one in gradient.standings] == ["backward", "backward_torch"]
    assert gradient.standings[0]["over_torch"] == pytest.approx(2)


def test_variants_are_compared_where_all_have_a_time() -> None:
    found = timed(copy=(10,) * 4, online=(20,) * 4, fused=(11, 11, 11, None))
    assert found.compared == 3
    assert [one["variant"] for one in found.standings] == ["fused", "online"]
    fewer = timed(copy=(10,) * 4, online=(20,) * 4, fused=(11, None, None, None))
    assert (fewer.compared, fewer.left_out) == (4, ["fused"])


def test_only_what_exceeds_l2_counts_where_its_size_is_known() -> None:
    times = {("copy", 256): 10, ("online", 256): 40, ("copy", 16384): 10, ("online", 16384): 20}
    rows = [row(*place, time_us=time) for place, time in times.items()]
    known = results(rows)
    assert (known.beyond_l2, known.compared) == (True, 1)
    unknown = results([r.model_copy(update={"gpu": "A card"}) for r in rows], "A card")
    assert (unknown.beyond_l2, unknown.compared) == (False, 2)
    interpreted_alone = framed([interpreted("online", 256)])
    assert statuses_of(interpreted_alone, "A CPU") == {"ok": 1}
    assert [one.standings for one in results_of(interpreted_alone, "A CPU")] == [()]
