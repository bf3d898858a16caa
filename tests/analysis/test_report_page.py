"""Small promises of the page: code in texts, numbers to the right, anchors that never clash."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.figures.style import slug
from analysis.format import Table
from analysis.load import read_inputs
from analysis.report.contents import CONTENTS, anchor_of, by_source
from analysis.report.page import columns, page, ticks
from analysis.report.parts import ORDER, sign, tally, tone
from experiments.data.rows import Row
from tests.analysis.plausible import row, write


def test_what_stands_between_backticks_is_code_and_the_rest_is_text() -> None:
    assert ticks("run `a <b>` & go") == "run <code>a &lt;b&gt;</code> &amp; go"
    assert ticks("one ` alone <i>") == "one ` alone &lt;i&gt;"


@given(st.text())
def test_no_text_becomes_markup(text: str) -> None:
    bare = ticks(text).replace("<code>", "").replace("</code>", "")
    assert not set(bare) & set("<>\"'")


def test_columns_of_numbers_alone_stand_to_the_right_and_short_ones_stay_whole() -> None:
    lines = [["a", "1,234.5", "4.1×", "", "3 rows"], ["b", "-2e-07", "91 %", "", "4 " * 20]]
    heads = ["name", "number", "share", "nothing", "words"]
    assert columns(Table("t", heads, lines)) == ["s", "n", "n", "s", ""]
    assert columns(Table("t", heads, [])) == [""] * 5


def test_a_second_picture_of_an_id_goes_by_its_own_name() -> None:
    taken: set[str] = set()
    anchors = [anchor_of("a_fig2", f"figure-a_fig2-{gpu}", taken) for gpu in ("one", "two")]
    assert anchors == ["A-fig2", "figure-a_fig2-two"]
    assert anchor_of("speedup", "figure-speedup", taken) == "figure-speedup"


def test_every_source_lists_what_it_shows() -> None:
    listed = [one.id for _, _, shown in by_source(set()) for one, _ in shown]
    assert sorted(listed) == sorted(one.id for one in CONTENTS)


def test_verdicts_differ_by_sign_within_claims_and_within_the_audit() -> None:
    claims, audit = ORDER[:4], ORDER[4:]
    assert len({sign(v) for v in claims}) == 4
    assert {tone(v) for v in audit} == {"bad", "warn", "good"}
    assert tally(["wrong", "consistent", "wrong"]) == [("wrong", 2), ("consistent", 1)]


def test_of_many_points_some_are_left_out_and_the_page_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # no counts beside these rows
    write(tmp_path / "rows", [one for night in range(7) for one in two_cards(night)])
    text = page(read_inputs(tmp_path / "rows", None, "report"), most=20)
    timed = 7 * 2 * 4  # nights, cards, points of a kernel and width that are no copy
    figure = f"figure-roofline_predicted-{slug('NVIDIA H200')}-events-cold"
    drawn = text[text.index(f'id="{figure}"') :].partition("</figure>")[0]
    # each point stands there twice: against its prediction, and by variant
    assert f"20 of {2 * timed} points are drawn; rows.jsonl has all. 20 points" in drawn
    assert drawn.count("<use ") < 20 + 60  # and the ticks
    points = re.search(r'id="points">(.*?)</script>', text)
    assert points
    for series in json.loads(points[1])["pictures"].values():
        assert sum(len(one["points"]) for one in series) <= 20
    assert f"20 of {timed * 3 // 2} lines are shown; rows.jsonl has all" in text
    assert "1 of 7 pictures of card_to_card on NVIDIA H200: the last 6 are above" in text


def two_cards(sweep: int) -> list[Row]:
    return [
        row(kernel, n, card=card, sweep=f"night-{sweep}", key=f"{kernel}-{n}-{sweep}")
        for kernel in ("fused", "online", "copy")
        for n in (256, 1024)
        for card in (0, 1)
    ]
