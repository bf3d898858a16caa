"""Every error that is known of the sources is found, and what is right is left alone."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from analysis.claims import audit as checks
from analysis.claims.audit import AuditFinding, audit
from experiments.data.files import RowsError

IMPOSSIBLE, CONTRADICTORY, WRONG, CONSISTENT = checks.VERDICTS


@pytest.fixture(scope="module")
def found() -> dict[str, AuditFinding]:
    return {finding.subject: finding for finding in audit()}


@pytest.mark.parametrize(
    ("subject", "verdict", "computed"),
    [
        ("A-fig2 fused, N ≥ 4,096", IMPOSSIBLE, "7,457 · 21,475 · 67,109 · 226,051 GB/s"),
        ("A6 against A-fig2", CONTRADICTORY, "torch takes 2.4 · 2.2 · 2.22 · 2.2 · 2.19 · 2.05"),
        ("A-fig1 naive", WRONG, "reads 7, writes 5, total 12 or reads 5, writes 3, total 8"),
        ("A-tab1 naive, writes of max(dim=1)", WRONG, "8M bytes of indices"),
        ("B2 against B1", CONTRADICTORY, "3MN against 2MN"),
        ("B4, 32-bit offsets", WRONG, "2,147,483"),
        ("C-ex row 1", CONSISTENT, "sum 1.8637"),
        ("C-ex row 3, sum of outputs", WRONG, "1.0150"),
        ("C3 against C4", CONTRADICTORY, "4.2%"),
        ("C4 torch", CONSISTENT, "900.99 GB/s"),
        ("D1 against D2", CONTRADICTORY, "torch 0.75 to 1.00 times as fast as naive"),
        ("E num_ctas", WRONG, "per cluster"),
    ],
)
def test_what_is_known_of_the_sources_is_found(
    found: dict[str, AuditFinding], subject: str, verdict: str, computed: str
) -> None:
    assert found[subject].verdict == verdict
    assert computed in found[subject].computed


def test_findings_are_in_the_order_of_the_sources_and_each_has_its_verdict(
    found: dict[str, AuditFinding],
) -> None:
    letters = [finding.source for finding in found.values()]
    assert letters == sorted(letters) == [subject[0] for subject in found]
    counts = Counter(one.verdict for one in found.values())
    assert counts == {IMPOSSIBLE: 3, CONTRADICTORY: 18, WRONG: 15, CONSISTENT: 40}


def test_a_missing_declaration_is_refused_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checks, "DECLARED", tmp_path)
    with pytest.raises(RowsError, match="declares fused, naive, online, torch"):
        audit()
