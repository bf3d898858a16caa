import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from experiments.recorded import recorded
from experiments.reproduce import main
from experiments.reproduced import UNTOLD, account, differences
from experiments.rows import Row, read_rows, rows_files
from tests.conftest import QUICK, ROOT, Result, shape


@pytest.fixture(scope="module")
def sweep_of_four(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recorded sweep: two variants, two widths, two dtypes, two rounds."""
    out = tmp_path_factory.mktemp("recorded") / "out"
    run = [sys.executable, "-m", "experiments.run", f"out={out}", "tracker=none", "gpu=cpu"]
    asked = ["kernel=torch,copy", *shape(4, [8, 16]), "dtype.names=[float32,float16]"]
    more = [*QUICK, "timing.cache=warm", "rounds=2", "seed=7"]
    done = subprocess.run([*run, *asked, *more], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return out


@pytest.fixture
def folder(sweep_of_four: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(sweep_of_four, tmp_path / "recorded"))


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
    assert account(sweep, folder) == (0, {UNTOLD: 16})
    lost = rows_files(folder)[0]
    lost.unlink()
    assert account(sweep, folder) == (0, {UNTOLD: 8, "it was not measured": 8})


def wrong(folder: Path, **changes: Any) -> None:
    path = rows_files(folder)[0].parent / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


WRONG: dict[str, tuple[Callable[[Path], Any], str]] = {
    "no rows": (lambda f: [p.unlink() for p in rows_files(f)], "no rows.jsonl in it"),
    "empty": (lambda f: [p.write_text("") for p in rows_files(f)], "its rows files are empty"),
    "no sweep": (lambda f: (f / "sweep.json").unlink(), "no sweep.json above it"),
    "no config": (lambda f: [p.unlink() for p in f.rglob("config.json")], "config.json: missing"),
    "torn": (lambda f: [p.write_text("{") for p in f.rglob("config.json")], "no job's configur"),
    "a list": (lambda f: [p.write_text("[]") for p in f.rglob("config.json")], "no job's config"),
    "deep": (lambda f: [p.write_text("[" * 10**5) for p in f.rglob("config.json")], "no job's"),
    "bytes": (lambda f: [p.write_bytes(b"\xff") for p in f.rglob("config.json")], "no job's conf"),
    "unknown": (lambda f: wrong(f, colour="red"), "config.json: no job's configuration"),
    "a text": (lambda f: wrong(f, rounds="many"), "config.json: no job's configuration"),
    "timer": (lambda f: wrong(f, timing={"timer": "sundial"}), "config.json"),
    "torn row": (lambda f: rows_files(f)[0].write_text("{}\n"), "rows.jsonl:1: schema_version"),
    "moved": (lambda f: shutil.move(rows_files(f)[0], f / "rows.jsonl"), "in no job's folder"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_cannot_be_repeated_is_refused_in_one_line_before_anything_runs(
    case: str, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    change, complaint = WRONG[case]
    change(folder)
    assert main(["--rows", str(folder), "--out", str(tmp_path / "again")]) == 2
    error = capsys.readouterr().err
    assert re.fullmatch(rf"error: .*{re.escape(complaint)}.*\n", error), error
    assert not (tmp_path / "again").exists()


def test_rows_of_another_gpu_are_not_measured_here_unasked(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for path in rows_files(folder):
        changed = [row.model_copy(update={"gpu": "NVIDIA H200"}) for row in read_rows(path)]
        path.write_text("".join(row.model_dump_json() + "\n" for row in changed))
    assert main(["--rows", str(folder), "--out", str(tmp_path / "again")]) == 2
    assert "the rows are of NVIDIA H200, and this is" in capsys.readouterr().err
    assert rows_files(tmp_path / "again") == []


def test_the_recorded_folder_itself_is_not_written_into(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = points(folder)
    assert main(["--rows", str(folder), "--out", str(folder)]) == 2
    assert "is a recorded sweep itself" in capsys.readouterr().err
    assert points(folder) == before
