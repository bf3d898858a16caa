"""``python -m analysis claims``: its files, its table, and the claims that it comes with."""

from __future__ import annotations

import argparse
import json
import re
import textwrap
from pathlib import Path
from typing import Any

import pytest

from analysis.__main__ import main
from analysis.claims import CLAIMS, claims_tables, read_claims
from analysis.commands.claims import run
from tests.analysis.claims.bench import judgement
from tests.analysis.plausible import paper, row, write

ROOT = Path(__file__).parents[3]
REFERENCE = ROOT / "outputs" / "reference"
IDS = [
    *(f"A{i}" for i in range(1, 9)), *(f"B{i}" for i in range(1, 6)),
    *(f"C{i}" for i in range(1, 8)), *(f"D{i}" for i in range(1, 5)), "E1",
]  # fmt: skip


def claims_of(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "claims.json").read_text(encoding="utf-8"))
    return found


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The committed rows, judged from the checkout, where the counts lie beside them."""
    out = tmp_path_factory.mktemp("claims")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        assert main(["claims", "--rows", str(REFERENCE), "--out", str(out)]) == 0
    return out


def test_every_claim_of_the_sources_is_stated() -> None:
    claims = read_claims()
    assert [claim.id for claim in claims] == IDS
    assert all(claim.id[0] == claim.source for claim in claims)


def test_every_claim_is_judged_with_number_interval_rows_and_evidence(reference: Path) -> None:
    found = claims_of(reference)
    judged = [claim for claim in found["claims"] if claim["gpu"] == "NVIDIA H200"]
    assert [claim["id"] for claim in judged] == IDS
    assert sum(found["counts"]["NVIDIA H200"].values()) == len(IDS)
    for claim in judged:
        if claim["verdict"] == "not testable here":
            assert "needs" in claim["why"]
            continue
        assert claim["low"] <= claim["value"] <= claim["high"]
        assert claim["evidence"] != "none"
        assert claim["measured"]
        assert claim["expected"]
        for place in claim["rows"]:
            used = found["rows"][place]
            assert used["gpu"] == claim["gpu"]
            assert {"kernel", "M", "N", "dtype", "time_us", "low", "high", "key"} <= set(used)


def test_what_the_sources_are_known_to_have_wrong_is_refuted(reference: Path) -> None:
    verdicts = {c["id"]: c["verdict"] for c in claims_of(reference)["claims"]}
    for wrong in ("A6", "A7", "B2", "C5", "C7", "D1"):
        assert verdicts[wrong] == "refuted", wrong
    for right in ("A1", "A2", "A3", "B1", "B3"):
        assert verdicts[right] == "supported", right


def test_verdicts_are_told_in_files_that_are_the_same_twice(
    reference: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    assert main(["claims", "--rows", str(REFERENCE), "--out", str(tmp_path)]) == 0
    names = sorted(p.name for p in tmp_path.iterdir())
    assert {"claims.csv", "claims.json", "claims.md", "claims.tex"} <= set(names)
    assert names == sorted(p.name for p in reference.iterdir())
    for name in (n for n in names if not n.endswith(".manifest.json")):
        assert (tmp_path / name).read_bytes() == (reference / name).read_bytes()
        assert str(ROOT) not in (tmp_path / name).read_text(encoding="utf-8")


def test_the_table_is_readable_without_colour_where_no_terminal_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "150")
    write(tmp_path / "rows", paper())
    assert main(["claims", "--rows", str(tmp_path / "rows")]) == 0
    printed = capsys.readouterr().out
    assert "\x1b" not in printed
    assert [line.split()[0] for line in printed.splitlines() if re.match(r" [A-E]\d ", line)] == IDS
    assert re.search(r"NVIDIA H200: \d+ supported, .* of 25 claims", printed)
    assert "python -m experiments.run kernel=" in printed


def test_the_example_in_the_file_s_own_comment_is_a_claim(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [line.removeprefix("#") for line in CLAIMS.read_text(encoding="utf-8").splitlines()]
    start = next(i for i, line in enumerate(lines) if line.strip().startswith("- id: my-1"))
    length = lines[start:].index("")
    claims = tmp_path / "mine.yaml"
    claims.write_text(textwrap.dedent("\n".join(lines[start : start + length])), encoding="utf-8")
    rows = write(
        tmp_path / "rows", [row("torch", 65536, time_us=20.0), row("online", 65536, time_us=10.0)]
    )
    monkeypatch.chdir(tmp_path)
    options = argparse.Namespace(rows=rows, out=tmp_path / "out", claims=claims)
    assert run(options) == 0
    (judged,) = claims_of(tmp_path / "out")["claims"]
    assert (judged["id"], judged["verdict"], judged["value"]) == ("my-1", "supported", 2.0)


def test_a_mistake_in_a_claims_file_is_named_in_one_line(tmp_path: Path) -> None:
    claims = tmp_path / "mine.yaml"
    claims.write_text("- {id: X, source: A, statement: s, checks: [{part: p}]}", encoding="utf-8")
    rows = write(tmp_path / "rows", [row("torch", 256)])
    with pytest.raises(Exception, match="claim X: check 1: give one of ratio") as caught:
        run(argparse.Namespace(rows=rows, out=tmp_path / "out", claims=claims))
    assert "\n" not in str(caught.value)


def test_markup_in_a_reason_stays_text(tmp_path: Path) -> None:
    reason = "<script>alert(1)</script> | [bold]x[/] $&%"
    bad = row("fused", 65536, time_us=None, status="unsupported", reason=reason)
    told = {"variant": "fused", "among": ["ok"]}
    _, checks = claims_tables([judgement(tmp_path, [bad], {"outcome": told})])
    assert "alert(1)" in checks.table.csv()
    assert "<script>" not in checks.table.markdown()
    assert r"\$\&\%" in checks.table.latex()


def test_no_claim_is_no_table() -> None:
    assert claims_tables([]) == []
