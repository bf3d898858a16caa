"""This project's claims of its own kernels: decided by rows, and apart from the sources'."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from analysis.__main__ import main
from analysis.claims import OWN_CLAIMS, read_claims
from analysis.claims.judgement import judged
from analysis.load import Records
from tests.analysis.drawing import frame_of
from tests.analysis.evidence import MODEL, counters
from tests.analysis.limit_rows import FEWER, limits
from tests.analysis.plausible import paper, write

pytestmark = pytest.mark.usefixtures("small_pictures")
SHAPES = [*FEWER, (4096, 256), (4096, 262144)]


def test_each_claim_is_this_projects_and_weighs_both_timers_alike() -> None:
    claims = read_claims(OWN_CLAIMS)
    assert [claim.id for claim in claims] == [f"L{i}" for i in range(1, len(claims) + 1)]
    assert {claim.source for claim in claims} == {"this project"}
    for claim in claims:
        timers = [check.limit.timer for check in claim.checks if check.limit]
        assert timers.count("events") == timers.count("graph")


def test_times_of_the_preset_decide_every_claim_about_times(tmp_path: Path) -> None:
    claims = [c for c in read_claims(OWN_CLAIMS) if all(check.limit for check in c.checks)]
    found = judged(claims, frame_of(tmp_path, limits(SHAPES)), Records())
    assert len(found) >= 7
    assert all(f.seen.verdict != "not testable here" for j in found for f in j.findings)


@pytest.mark.parametrize(("reads", "verdict"), [(1.01, "supported"), (1.03, "refuted")])
def test_counters_decide_whether_auto_reads_once(
    reads: float, verdict: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(MODEL, "auto", (1, 1))
    [claim] = [c for c in read_claims(OWN_CLAIMS) if "reads its input once" in c.statement
               and c.statement.startswith("auto")]  # fmt: skip
    seen = [counters("auto", 8192, 16384, 1.0, 0.9), counters("auto", 512, 262144, reads, 0.9)]
    beyond = counters("auto", 128, 1048576, 2.0, 0.9)  # of wider rows nothing is claimed
    evidence = Records(counters=(*seen, beyond))
    [found] = judged([claim], frame_of(tmp_path, limits(FEWER[:1])), evidence)
    assert found.verdict == verdict


def test_claims_of_ours_have_files_of_their_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    rows = write(tmp_path / "rows", limits(SHAPES, timers=["events"], dtypes=["float32"]))
    assert main(["claims", "--rows", str(rows)]) == 0
    out = rows / "claims"
    own = json.loads((out / "own_claims.json").read_text(encoding="utf-8"))["claims"]
    sources = json.loads((out / "claims.json").read_text(encoding="utf-8"))["claims"]
    assert {c["id"][0] for c in own} == {"L"}
    assert {c["id"][0] for c in sources} == set("ABCDE")
    assert (
        (out / "own_claims.md").read_text(encoding="utf-8").startswith("## This project's claims")
    )
    printed = capsys.readouterr().out
    assert "of 25 claims" in printed
    assert f"of {len(own)} claims" in printed
    assert "python -m experiments.counters kernel=auto" in printed


def test_rows_without_auto_skip_them_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    rows = write(tmp_path / "rows", paper())
    assert main(["claims", "--rows", str(rows)]) == 0
    assert not list((rows / "claims").glob("own_claims*"))
    assert "skipped: own_claims needs timed rows of auto" in capsys.readouterr().err
