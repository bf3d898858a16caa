"""Tables and texts: whatever a row holds stays text in every format."""

import csv
import io
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.format import Table
from analysis.published import elements, equal, expression

HOSTILE = st.text(
    st.sampled_from("ab1 |\\$&%#_~^{}[]*`<>()\n\x1b\u202e\ud800é图µ×≤\"'-"), max_size=12
)
LINES = st.lists(st.lists(HOSTILE, min_size=3, max_size=3), min_size=1, max_size=4)


@settings(deadline=None)
@given(HOSTILE, LINES, HOSTILE)
def test_whatever_cells_hold_every_format_keeps_its_columns(
    title: str, lines: list[list[str]], note: str
) -> None:
    table = Table(title, ["a", "b|", "c$"], lines, [note])
    _, rows, *_ = (block.splitlines() for block in table.markdown().split("\n\n"))
    assert re.fullmatch(r"\|(---:?\|){3}", rows.pop(1))
    assert len(rows) == len(lines) + 1
    assert {len(re.findall(r"(?<!\\)(?:\\\\)*\|", row)) for row in rows} == {4}
    read = list(csv.reader(io.StringIO(table.csv())))
    assert [len(row) for row in read] == [3] * (len(lines) + 1)
    for text in (table.markdown(), table.csv(), table.plain()):
        assert all(letter.isprintable() or letter == "\n" for letter in text)
        text.encode()


@pytest.mark.parametrize(
    "text",
    ["=1+1", "@SUM(1)", "-2+3+cmd|' /C calc'!A0", "+A1", " =1", "\t=1", "\r\n=1", "＝1", "-x"],
)
def test_text_of_a_row_never_becomes_a_spreadsheets_formula(text: str) -> None:
    table = Table("T", ["kernel", text], [[text, "1.5"]])
    heads, (cell, value) = csv.reader(io.StringIO(table.csv()))
    assert cell[0] == heads[1][0] == "'"
    assert cell.lstrip("' ") == text.strip()
    assert value == "1.5"


def test_a_formula_of_two_cases_is_text_about_two_formulas() -> None:
    formula = "2MN if N ≤ 4096 else 4MN"
    assert elements(formula, 2, 4096) == 2 * 2 * 4096
    assert elements(formula, 2, 4097) == 4 * 2 * 4097
    assert not equal(formula, "2MN")


@pytest.mark.parametrize(
    "text", ["", "MNN", "9**9**9", "__import__('os')", "M*N", "+", "2 + ", "MN if M ≤ 4 else N"]
)
def test_what_is_no_formula_is_refused_and_never_run(text: str) -> None:
    with pytest.raises(ValueError, match="not a formula"):
        expression(text)
