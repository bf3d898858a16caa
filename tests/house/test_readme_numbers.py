"""The numbers that the README tells are the recorded ones."""

from __future__ import annotations

import csv
import json
from collections import Counter

from experiments.worker import hostcost
from tests.house.shell import ROOT

README = (ROOT / "README.md").read_text()


def test_claims_and_audit_stand_there_as_they_were_recorded() -> None:
    folder = ROOT / "outputs" / "reference" / "h200" / "claims"
    told = [line[:4] for line in list(csv.reader((folder / "claims.csv").open()))[1:]]
    assert _table("claims")[1:] == told
    counts = json.loads((folder / "claims.json").read_text())["counts"]["NVIDIA H200"]
    said = " and ".join(f"{n} {verdict}" for verdict, n in counts.items())
    assert f"**{said} of {len(told)} claims**" in README
    audited = list(csv.reader((folder / "audit_summary.csv").open()))
    worst = ("physically impossible", "self-contradictory")
    assert _table("audit")[1:] == [line for line in audited if line[1] in worst]
    checks = Counter(line["verdict"] for line in csv.DictReader((folder / "audit.csv").open()))
    for verdict, count in checks.items():
        assert f"{count} {'are ' * (verdict == worst[0])}{verdict}" in " ".join(README.split())
    assert f"Of {checks.total()} checks" in README


def test_limits_stand_there_as_they_were_recorded() -> None:
    recorded = ROOT / "outputs" / "reference" / "h200_limits" / "tables" / "limits_summary.csv"
    heads, *lines = _table("limits")
    if not recorded.exists():
        assert lines == [], "a number that no recorded row gives"
        return
    assert [heads, *lines] == list(csv.reader(recorded.open()))
    assert "h200_limits/figures/limits-nvidia-h200-" in README
    judged = csv.reader((recorded.parents[1] / "claims" / "claims.csv").open())
    assert _table("own") == [line[:4] for line in judged]


def test_host_cost_stands_there_as_it_was_recorded() -> None:
    folder = ROOT / "outputs" / "reference" / "h200_limits"
    recorded = json.loads((folder / "hostcost.json").read_text())
    assert hostcost.table(recorded["layers"]) + "\n" == (folder / "hostcost.md").read_text()
    assert hostcost.table(recorded["layers"]) in _part("hostcost")
    assert "×".join(map(str, recorded["shape"])) in README.partition("<!-- hostcost -->")[0][-300:]


def _part(name: str) -> str:
    """What stands between a marker and its end."""
    return README.partition(f"<!-- {name} -->")[2].partition("<!-- end -->")[0]


def _table(name: str) -> list[list[str]]:
    """The cells of the table below a marker, its heads first."""
    lines = [line for line in _part(name).strip().splitlines() if not line.startswith("|---")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]
