"""``python -m analysis claims``: its files, its table, and the claims that it comes with."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from analysis.__main__ import main
from analysis.claims import OWN_CLAIMS, claims_tables, read_claims
from analysis.claims.judgement import judged
from analysis.load import Records
from tests.analysis.claims.bench import judgement
from tests.analysis.drawing import frame_of
from tests.analysis.limit_rows import FEWER, limits
from tests.analysis.plausible import paper, row, write
from tests.analysis.records import MODEL, counters

IDS = [
    *(f"A{i}" for i in range(1, 9)), *(f"B{i}" for i in range(1, 6)),
    *(f"C{i}" for i in range(1, 8)), *(f"D{i}" for i in range(1, 5)), "E1",
]  # fmt: skip
SHAPES = [*FEWER, (4096, 256), (4096, 262144)]


def claims_of(folder: Path, name: str = "claims") -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
    return found


def test_our_own_claims_weigh_both_timers_alike_and_every_one_is_decided(tmp_path: Path) -> None:
    claims = read_claims(OWN_CLAIMS)
    assert [claim.id for claim in claims] == [f"L{i}" for i in range(1, len(claims) + 1)]
    for claim in claims:
        timers = [check.limit.timer for check in claim.checks if check.limit]
        assert timers.count("events") == timers.count("graph")
    timed = [c for c in claims if all(check.limit for check in c.checks)]
    found = judged(timed, frame_of(tmp_path, limits(SHAPES)), Records())
    assert len(found) >= 7
    assert all(f.verdict != "not testable here" for j in found for f in j.findings)


@pytest.mark.parametrize(("reads", "verdict"), [(1.01, "supported"), (1.03, "refuted")])
def test_counters_decide_whether_auto_reads_once(
    reads: float, verdict: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(MODEL, "auto", (1, 1))
    [claim] = [c for c in read_claims(OWN_CLAIMS) if c.statement.startswith("auto reads its input")]
    seen = [counters("auto", 8192, 16384, 1.0, 0.9), counters("auto", 512, 262144, reads, 0.9)]
    beyond = counters("auto", 128, 1048576, 2.0, 0.9)  # of wider rows nothing is claimed
    frame = frame_of(tmp_path, limits(FEWER[:1]))
    [found] = judged([claim], frame, Records(counters=(*seen, beyond)))
    assert found.verdict == verdict


def test_our_own_claims_have_files_of_their_own_where_rows_hold_auto(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    rows = write(tmp_path / "rows", limits(SHAPES, timers=["events"], dtypes=["float32"]))
    assert main(["claims", "--rows", str(rows)]) == 0
    own, theirs = (claims_of(rows / "claims", n)["claims"] for n in ("own_claims", "claims"))
    assert {c["id"][0] for c in own} == {"L"}
    assert {c["id"][0] for c in theirs} == set("ABCDE")
    table = (rows / "claims" / "own_claims.md").read_text(encoding="utf-8")
    assert table.startswith("## This project's claims")
    printed = capsys.readouterr().out
    assert f"of {len(own)} claims" in printed
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
    assert re.search(r"NVIDIA H200: \d+ supported, .* of 25 claims", printed)
    assert "python -m experiments.run kernel=" in printed


def test_markup_in_a_reason_stays_text(tmp_path: Path) -> None:
    reason = "<script>alert(1)</script> | [bold]x[/] $&%"
    bad = row("fused", 65536, time_us=None, status="unsupported", reason=reason)
    check = {"outcome": {"variant": "fused", "among": ["ok"]}}
    _, checks = claims_tables([judgement(tmp_path, [bad], check)])
    assert "alert(1)" in checks.table.csv()
    assert "<script>" not in checks.table.markdown()
    assert r"\$\&\%" in checks.table.latex()
    assert claims_tables([]) == []
