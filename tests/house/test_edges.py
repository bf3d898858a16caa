"""Figures, tables, claims and the report are files that depend on rows, records and code."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from tests.house.shell import ROOT, make

# stands for `python -m analysis KIND --rows FROM [--out OUT]`: notes the call, makes the manifest
PYTHON = """#!/bin/sh
echo "$*" >> calls
kind=$3 out=outputs/sweep/$3
[ "$6" = --out ] && out=$7
mkdir -p "$out" && echo '{}' > "$out/$kind.manifest.json"
"""
KINDS = ("figures", "tables", "roofline", "claims", "report")


@pytest.fixture
def house(tmp_path: Path) -> Path:
    """A folder with a sweep, some code, and an interpreter that notes what it is asked for."""
    read = [f"experiments/data/{name}.py" for name in ("cards", "metrics", "records", "rows")]
    read += ["analysis/lines.py", "analysis/page.css", "conf/gpu/h200.yaml"]
    for name in ("outputs/sweep/job/rows.jsonl", "outputs/reference/h200/rows.jsonl", *read):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    (tmp_path / "python").write_text(PYTHON)
    (tmp_path / "python").chmod(0o755)
    old = time.time() - 100
    for path in tmp_path.rglob("*"):
        os.utime(path, (old, old))
    return tmp_path


def calls(house: Path, *arguments: str) -> list[str]:
    """What a `make` in that house asked its interpreter for."""
    (house / "calls").unlink(missing_ok=True)
    done = make("-C", str(house), "-f", str(ROOT / "Makefile"), "READY=", "PY=./python", *arguments)
    assert done.returncode == 0, done.stderr
    noted = house / "calls"
    return noted.read_text().splitlines() if noted.exists() else []


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_made_again_without_need(kind: str, house: Path) -> None:
    assert calls(house, kind) == [f"-m analysis {kind} --rows outputs/sweep"]
    assert calls(house, kind) == []


@pytest.mark.parametrize(
    "changed",
    ["outputs/sweep/job/rows.jsonl", "analysis/lines.py", "analysis/page.css", "conf/gpu/h200.yaml",
     "experiments/data/metrics.py"],
)  # fmt: skip
def test_newer_rows_or_code_make_it_again(changed: str, house: Path) -> None:
    calls(house, "figures")
    os.utime(house / changed, (time.time() + 5, time.time() + 5))
    assert calls(house, "figures") == ["-m analysis figures --rows outputs/sweep"]


def test_records_beside_the_rows_count_as_rows_do(house: Path) -> None:
    calls(house, "tables")
    late = house / "outputs/sweep/counters.jsonl"
    late.write_text("")
    os.utime(late, (time.time() + 5, time.time() + 5))
    assert calls(house, "tables") == ["-m analysis tables --rows outputs/sweep"]


def test_code_that_no_picture_depends_on_changes_nothing(house: Path) -> None:
    calls(house, "report")
    for name in ("experiments/run.py", "analysis/lines.pyc", "outputs/sweep/table.md"):
        (house / name).write_text("")
        os.utime(house / name, (time.time() + 5, time.time() + 5))
    assert calls(house, "report") == []


def test_rows_and_out_are_passed_and_stand_for_themselves(house: Path) -> None:
    there = ["figures", "ROWS=outputs/reference", "OUT=there"]
    assert calls(house, *there) == ["-m analysis figures --rows outputs/reference --out there"]
    assert calls(house, *there) == []
    assert calls(house, "figures") == ["-m analysis figures --rows outputs/sweep"]


@pytest.mark.parametrize("arguments", [["ROWS=wandb:lab/softmax"], ["ARGS=--verbose"]])
def test_what_make_cannot_date_is_made_every_time(arguments: list[str], house: Path) -> None:
    assert len(calls(house, "claims", *arguments)) == 1
    assert len(calls(house, "claims", *arguments)) == 1


def test_a_name_with_a_blank_is_one_name(house: Path) -> None:
    (house / "my rows").mkdir()
    assert calls(house, "tables", "ROWS=my rows") == ["-m analysis tables --rows my rows"]


def test_nothing_here_measures(house: Path) -> None:
    shown = make("-n", "-B", *KINDS, "ROWS=outputs/reference", f"OUT={house}/x").stdout
    assert "experiments.run" not in shown
    assert "experiments.counters" not in shown
