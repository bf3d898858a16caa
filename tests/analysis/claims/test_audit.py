"""Every error that is known of the sources is found, and right numbers are left alone."""

from __future__ import annotations

import pytest

from analysis.claims.audit import CONTRADICTORY, IMPOSSIBLE, WRONG, audit, audit_table
from analysis.published import compared


@pytest.mark.parametrize(
    ("subject", "verdict", "computed"),
    [
        ("A-fig2 fused, N ≥ 4,096", IMPOSSIBLE, "7,457 · 21,475 · 67,109 · 226,051 GB/s"),
        ("A6 against A-fig2", CONTRADICTORY, "torch takes 2.4 · 2.2 · 2.22 · 2.2 · 2.19 · 2.05"),
        ("A-fig1 naive", WRONG, "reads 7, writes 5, total 12, or reads 5, writes 3, total 8"),
        ("B2 against B1", CONTRADICTORY, "3MN against 2MN"),
        ("C-ex row 1, sum", "", "1.8637"),
        ("C-ex row 3, sum of printed outputs", WRONG, "1.0150"),
        ("C3 against C4", CONTRADICTORY, "4.2%"),
        ("D1 against D2", CONTRADICTORY, "torch 0.75 to 1.00 times naive"),
        ("E num_ctas", WRONG, "per cluster"),
    ],
)
def test_what_is_known_of_the_sources_is_found(subject: str, verdict: str, computed: str) -> None:
    found = {one.subject: one for one in audit()}
    assert found[subject].verdict == verdict
    assert computed in found[subject].computed


def test_the_table_has_the_refuted_statements_and_says_how_many_were_checked() -> None:
    found, table = audit(), audit_table()
    letters = [line[0] for line in table.lines]
    assert letters == sorted(letters) == [line[1][0] for line in table.lines]
    assert len(table.lines) == sum(bool(one.verdict) for one in found)
    assert table.notes[0].startswith(f"{len(found)} statements were checked: 3 physically imposs")


def test_the_worked_example_has_each_number_that_c_prints_and_whether_it_is_right() -> None:
    lines = {line[:2]: line[2:] for line in compared()}
    assert len(lines) == len(compared())
    assert lines["1", "m, d after block 2"][1] == "3.0, 1.863681"
    assert lines["1", "sum of block 1"] == ("1.468", "1.4683", "+0.0003", "yes")
    assert lines["2", "sum"][:2] == ("3.717", "1.4427")
    wrong = {at for at, cells in lines.items() if cells[-1] == "no"}
    quantities = ("sum", "outputs", "sum of printed outputs")
    assert wrong == {(row, quantity) for row in "23" for quantity in quantities}
