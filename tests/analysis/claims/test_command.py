"""``python -m analysis claims``: its files, its table, and the claims that it comes with."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from analysis.__main__ import main
from analysis.claims import OWN_CLAIMS, claims_tables, read_claims
from analysis.claims.times import Limit
from tests.analysis.claims.bench import judgement
from tests.analysis.limit_rows import FEWER, limits
from tests.analysis.plausible import paper, row, write

IDS = [
    *(f"A{i}" for i in range(1, 9)), *(f"B{i}" for i in range(1, 10)),
    *(f"C{i}" for i in range(1, 10)), *(f"D{i}" for i in range(1, 5)), "E1",
]  # fmt: skip


def of_these_rows(limit: Limit) -> bool:
    """Whether a check is of softmax, and not of the widest rows alone."""
    widest = limit.where.cols and min(limit.where.cols.listed or (0,)) >= 262144
    return limit.operation == "softmax" and not widest


def test_our_own_claims_weigh_both_timers_alike_and_are_decided_where_rows_hold_auto(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    claims = read_claims(OWN_CLAIMS)
    assert [claim.id for claim in claims] == [f"L{i}" for i in range(1, len(claims) + 1)]
    for claim in claims:
        # Liger's cross-entropy asks the host in between, which no graph can hold
        timers = [check.limit.timer for check in claim.checks
                  if check.limit and check.limit.over != "liger"]  # fmt: skip
        assert timers.count(("events",)) == timers.count(("chain", "graph"))
    monkeypatch.chdir(tmp_path)
    shapes = [*FEWER, (4096, 256), (4096, 262144), (2670, 50257)]
    rows = write(tmp_path / "rows", limits(shapes, dtypes=["float32"], rounds=2))
    assert main(["claims", "--rows", str(rows)]) == 0
    found = json.loads((rows / "claims" / "own_claims.json").read_text(encoding="utf-8"))["claims"]
    assert [one["id"] for one in found] == [claim.id for claim in claims]
    for claim, one in zip(claims, found, strict=True):
        if all(check.limit and of_these_rows(check.limit) for check in claim.checks):
            assert all(part["verdict"] != "not testable here" for part in one["findings"])
    printed = capsys.readouterr().out
    assert f"of {len(found)} claims" in printed
    assert "python -m experiments.counters kernel=auto" in printed


def test_rows_without_auto_give_a_readable_table_and_skip_our_claims_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "150")
    rows = write(tmp_path / "rows", paper())
    assert main(["claims", "--rows", str(rows)]) == 0
    assert not list((rows / "claims").glob("own_claims*"))
    printed, skipped = capsys.readouterr()
    assert "skipped: own_claims needs timed rows of auto" in skipped
    assert "\x1b" not in printed
    assert [line.split()[0] for line in printed.splitlines() if re.match(r" [A-E]\d ", line)] == IDS
    assert re.search(r"NVIDIA H200: \d+ supported, .* of 31 claims", printed)
    assert "python -m experiments.run kernel=" in printed
    named = (rows / "claims" / "sources.md").read_text(encoding="utf-8").splitlines()
    letters = [line.split(" | ")[0] for line in named if "](https://" in line]
    assert letters == [f"| {letter}" for letter in "ABCDE"]
    assert named[-1].endswith("| not testable here 1 |")


def test_markup_in_a_reason_stays_text(tmp_path: Path) -> None:
    reason = "<script>alert(1)</script> | [bold]x[/] $&%"
    bad = row("fused", 65536, time_us=None, status="unsupported", reason=reason)
    check = {"outcome": {"variant": "fused", "among": ["ok"]}}
    _, checks = claims_tables([judgement(tmp_path, [bad], check)])
    assert "<script>" not in checks.table.markdown()
    assert r"\$\&\%" in checks.table.latex()
