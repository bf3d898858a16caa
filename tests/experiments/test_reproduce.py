"""The recorded points, measured again under their own keys."""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from experiments.data.rows import Row, read_rows, rows_files
from experiments.reproduce import UNKNOWN, account, differences, recorded
from tests.conftest import ROOT, Result


def rows_below(folder: Path) -> list[Row]:
    return [row for path in rows_files(folder) for row in read_rows(path)]


def points(folder: Path) -> list[tuple[Any, ...]]:
    return sorted((r.kernel, r.rows, r.cols, r.dtype, r.round, r.key) for r in rows_below(folder))


def drop(folder: Path, lost: Callable[[Row], bool]) -> None:
    for path in rows_files(folder):
        kept = [row for row in read_rows(path) if not lost(row)]
        path.write_text("".join(row.model_dump_json() + "\n" for row in kept))


def reproduce(folder: Path, out: Path, *more: str) -> Result:
    command = [sys.executable, "-m", "experiments.reproduce", "--rows", str(folder)]
    done = subprocess.run(
        [*command, "--out", str(out), *more], cwd=ROOT, capture_output=True, text=True, timeout=240
    )
    return Result(done.returncode, done.stdout, done.stderr, out)


def test_exactly_the_recorded_points_are_measured_again_under_their_keys(
    folder: Path, tmp_path: Path
) -> None:
    drop(folder, lambda row: row.cols == 16 and row.dtype == "float16")
    done = reproduce(folder, tmp_path / "again")
    assert points(tmp_path / "again") == points(folder)
    assert "12 of 12 points were measured again as recorded" in done.stdout
    assert {row.cache for row in done.rows} == {"warm"}
    assert (tmp_path / "again" / "compare" / "compare.md").exists()
    assert done.status in (0, 1), done.stderr  # a busy machine may be slower by any threshold


def test_a_dry_run_lists_the_points_and_measures_none(folder: Path, tmp_path: Path) -> None:
    done = reproduce(folder, tmp_path / "again", "--dry-run")
    assert done.status == 0, done.stderr
    assert done.rows == []
    assert "16 points" in done.stdout


def test_a_sweep_that_is_interrupted_goes_on_where_it_stopped(folder: Path, tmp_path: Path) -> None:
    again = Path(shutil.copytree(folder, tmp_path / "again"))
    drop(again, lambda row: row.round == 1)
    reproduce(folder, again)
    assert points(again) == points(folder)
    assert {row.attempt for row in rows_below(again)} == {1}


def test_a_row_of_another_protocol_than_the_newest_is_named(folder: Path, tmp_path: Path) -> None:
    path = rows_files(folder)[0]
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    protocol = {"timer": "auto", "cache": "warm", "warmup": 5, "min_samples": 5,
                "max_samples": 20, "precision": 0.1}  # fmt: skip
    for row in rows:
        row["environment"] |= {"protocol": protocol, "seed": 7}
    rows[0]["environment"]["protocol"] = protocol | {"max_samples": 9}
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    [sweep] = recorded(folder)
    same, reasons = account(sweep, folder)
    assert (same, reasons.total()) == (15, 1)
    assert "by another protocol or seed" in next(iter(reasons))
    newest = next(job for job in sweep.jobs if job.label == rows[0]["kernel"])
    assert newest.config["timing"]["precision"] == 0.1


def test_points_that_come_back_otherwise_are_counted_by_what_differs(folder: Path) -> None:
    [sweep] = recorded(folder)
    assert account(sweep, folder) == (16, {})
    row = rows_below(folder)[0]
    newer = row.model_copy(update={"environment": {**row.environment, "torch": "9.0"}})
    assert differences(row, newer) == [f"torch {row.environment['torch']} → 9.0"]
    assert differences(row, row.model_copy(update={"gpu": "X"})) == [f"GPU {row.gpu} → X"]
    edited = [row.model_copy(update={"environment": {"source": s}}) for s in ("a", "b")]
    assert differences(*edited) == [f"source of {row.kernel} changed"]
    for path in rows_files(folder):
        other = [r.model_copy(update={"key": f"other {r.key}"}) for r in read_rows(path)]
        path.write_text("".join(r.model_dump_json() + "\n" for r in other))
    assert account(sweep, folder) == (0, {UNKNOWN: 16})
    lost = rows_files(folder)[0]
    lost.unlink()
    assert account(sweep, folder) == (0, {UNKNOWN: 8, "it was not measured": 8})
