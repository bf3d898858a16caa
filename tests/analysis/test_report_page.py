"""Small promises of the page: code in texts, numbers to the right, anchors that never clash."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from analysis.format import Table
from analysis.report.contents import CONTENTS, anchor_of, by_source
from analysis.report.page import columns, ticks
from analysis.report.parts import ORDER, sign, tally, tone


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
