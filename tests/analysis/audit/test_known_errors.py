"""Every numerical error that is known of the sources is found, and what is right is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from analysis.audit import audit, audit_summary_table, audit_tables
from experiments.data.rows import RowsError
from tests.analysis.audit.planted import finding

KNOWN = {
    "A-fig2 fused, N ≥ 4,096": "physically impossible",
    "A-fig2 torch, N ≥ 16,384": "physically impossible",
    "A-fig2 naive, N ≥ 4,096": "physically impossible",
    "A-fig2 fused against A6, every N": "self-contradictory",
    "A-fig2 fused against B5, N ≥ 65,536": "self-contradictory",
    "A6 against A-fig2": "self-contradictory",
    "A3 against A-fig2": "self-contradictory",
    "A4 against A-fig2": "self-contradictory",
    "A-fig1 naive": "wrong",
    "B2 against B1": "self-contradictory",
    "B2 against B-tab1 fused": "self-contradictory",
    "C-ex row 2": "wrong",
    "C-ex row 3": "wrong",
    "C-ex row 2, sum of outputs": "wrong",
    "C-ex row 3, sum of outputs": "wrong",
    "C2 against C3, torch": "self-contradictory",
    "C3 against C4": "self-contradictory",
    "C7, threads a block": "wrong",
    "C-viz, block size": "self-contradictory",
    "D1 against D2": "self-contradictory",
    "D1 against A5": "self-contradictory",
    "D fused, against its model": "wrong",
    "B4, 32-bit offsets": "wrong",
    "A, occupancy": "wrong",
    "E num_ctas": "wrong",
    "E maxnreg": "wrong",
    "A-tab1 naive, writes of max(dim=1)": "wrong",
}
RIGHT = (
    "C-ex row 1",
    "C-ex row 1, sum of outputs",
    "C-ex row 1, block sums",
    "C4 torch",
    "C4 hybrid",
    "A-tab1 naive, reads + writes",
    "A-fig1 fused",
    "B1 online, against its model",
    "B5, a row of 57K",
    "A3, against the models",
    "A5 against A-fig2",
    "A-fig2, 32-bit offsets",
)
# The numbers that are known of each, as they stand in the list of known errors.
NUMBERS = {
    "A-fig2 fused, N ≥ 4,096": ("7,457", "21,475", "67,109", "226,051"),
    "A-fig2 torch, N ≥ 16,384": ("110,127",),
    "A-fig2 naive, N ≥ 4,096": ("343,598",),
    "A-fig2 fused against A6, every N": ("1,678",),
    "A6 against A-fig2": ("2.4", "2.05"),
    "A4 against A-fig2": ("4 · 4 · 3.61 · 3.2 · 2.97 · 2.63",),
    "C-ex row 2": ("1.443", ".693 .001 .155 .035 .003 .013 .008 .094"),
    "C-ex row 3": ("1.567", ".007 .638 .002 .086 .019 .001 .235 .012"),
    "C-ex row 2, sum of outputs": ("0.909",),
    "C-ex row 3, sum of outputs": ("1.015",),
    "C3 against C4": ("4.2%",),
    "D fused, against its model": ("2MN elements",),
}


@pytest.mark.parametrize("subject", KNOWN)
def test_known_error_is_found(subject: str) -> None:
    assert finding(subject).verdict == KNOWN[subject]


@pytest.mark.parametrize("subject", NUMBERS)
def test_known_error_is_found_with_its_numbers(subject: str) -> None:
    assert all(number in finding(subject).computed for number in NUMBERS[subject])


@pytest.mark.parametrize("subject", RIGHT)
def test_what_is_right_is_consistent(subject: str) -> None:
    assert finding(subject).verdict == "consistent"


def test_no_two_findings_share_a_subject() -> None:
    subjects = [one.subject for one in audit()]
    assert len(subjects) == len(set(subjects))


def test_summary_holds_every_error_and_counts_the_checks() -> None:
    findings = audit()
    table = audit_summary_table(findings)
    for one in findings:
        line = [line for line in table.lines if one.computed in line[3] and one.verdict == line[1]]
        assert bool(line) == (one.verdict != "consistent"), one.subject
    assert table.notes[0].startswith(f"{len(findings)} checks: ")


def test_table_holds_every_check_and_what_was_not_audited() -> None:
    findings = audit()
    named = {one.stem: one.table for one in audit_tables(findings)}
    assert len(named["audit"].lines) == len(findings)
    assert "compile-time constants" in named["audit"].notes[-1]


def test_missing_declarations_are_named(tmp_path: Path) -> None:
    with pytest.raises(RowsError, match="no recorded declaration of"):
        audit(declared=tmp_path)
