import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from experiments.data.rows import Row, read_rows, rows_files
from tests.conftest import DOUBLES, QUICK, ROOT, Command, Result, command_line, once_each, shape

SMALL = [
    "kernel=good",
    *shape(16, [8, 64]),
    "dtype=float32",
    *QUICK,
]


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Result:
    """The small sweep, measured once."""
    out = tmp_path_factory.mktemp("small") / "out"
    done = subprocess.run(command_line(out, *SMALL), cwd=ROOT, capture_output=True, text=True)
    return Result(done.returncode, done.stdout, done.stderr, out)


@pytest.fixture
def before(measured: Result, tmp_path: Path) -> list[Row]:
    """Its rows, in a copy of its folder that the test's own sweeps go on with."""
    shutil.copytree(measured.out, tmp_path / "out")
    return measured.rows


def test_a_run_without_m_is_a_sweep_of_one_job_with_its_roof(measured: Result) -> None:
    done = measured
    assert done.status == 0, done.stderr
    assert sorted((r.kernel, r.cols, r.status) for r in done.rows) == [
        ("copy", 8, "ok"), ("copy", 64, "ok"), ("good", 8, "ok"), ("good", 64, "ok"),
    ]  # fmt: skip
    for row in done.rows:
        assert row.timer == "host"
        assert row.cache == "warm"
        assert row.samples_us
        assert row.time_low_us <= row.time_us <= row.time_high_us  # type: ignore[operator]
        assert row.wall_s >= row.sampling_s  # type: ignore[operator]
        assert row.model_bytes == row.compulsory_bytes == 2 * 16 * row.cols * 4
        assert row.model_formula == "2MN"
    assert "of roof" in done.stdout
    assert str(done.out / "table.md") in done.stdout


def test_caches_are_cold_unless_it_is_said_otherwise(sweep: Command) -> None:
    done = sweep("kernel=copy", *shape(4, 8), "dtype=float32", *QUICK[:2])
    assert [row.cache for row in done.rows] == ["cold"]


def test_the_same_command_again_measures_nothing(sweep: Command, before: list[Row]) -> None:
    again = sweep(*SMALL)
    assert again.status == 0
    assert again.rows == before
    assert "nothing to measure" in again.stdout


def test_rows_decide_the_status_and_not_a_table_that_cannot_be_written(
    sweep: Command, before: list[Row], tmp_path: Path
) -> None:
    (tmp_path / "out" / "table.md").unlink()
    (tmp_path / "out" / "table.md").mkdir()
    again = sweep(*SMALL)
    assert (again.status, again.rows) == (0, before)
    assert "table.md could not be written: Is a directory" in again.stderr
    assert "of roof" in again.stdout


def test_overwrite_measures_again_under_the_next_attempt(sweep: Command, before: list[Row]) -> None:
    again = sweep(*SMALL, "overwrite=true")
    assert [row for row in again.rows if row.attempt == 1] == before
    assert sorted({row.attempt for row in again.rows}) == [1, 2]
    assert len(again.rows) == 8


def test_rounds_visit_every_point_again(sweep: Command, before: list[Row]) -> None:
    done = sweep(*SMALL, "rounds=3")
    assert sorted(row.round for row in done.rows) == [0] * 4 + [1] * 4 + [2] * 4
    assert once_each(done.rows)
    assert [row for row in done.rows if row.round == 0] == before


def test_a_tunable_is_swept_as_hydra_users_expect(sweep: Command) -> None:
    done = sweep(
        "-m", "kernel=online", "kernel.block_size=1024,4096", *shape(4, [8, 16]),
        "dtype=float32,bfloat16", "gpu=cpu", *QUICK,
    )  # fmt: skip
    assert done.status == 0, done.stderr
    online = [row for row in done.rows if row.kernel == "online"]
    assert {row.params["block_size"] for row in online} == {1024, 4096}
    assert {row.dtype for row in online} == {"float32", "bfloat16"}
    assert {row.backend for row in online} == {"interpreter"}
    assert all(row.status == "ok" and row.time_us is None for row in online)
    assert once_each(done.rows)


def test_a_dry_run_lists_points_and_minutes_and_leaves_no_row(sweep: Command) -> None:
    done = sweep(*SMALL, "dry_run=true")
    assert done.status == 0
    assert "good 16×64 float32" in done.stdout
    assert "4 points to measure, about 0.0 minutes" in done.stdout
    assert done.rows == []


def test_overlapping_jobs_share_a_point(sweep: Command) -> None:
    done = sweep("kernel=good", "grid=point", "grid.rows=8,[8,16]", "grid.cols=32", *QUICK)
    assert done.status == 0, done.stderr
    assert once_each(done.rows)
    assert sum(row.kernel == "good" for row in done.rows) == 2


def test_variants_and_configuration_lie_beside_the_rows(measured: Result) -> None:
    variants = json.loads((measured.out / "variants.json").read_text())
    assert variants["good"]["formula"] == "2MN"
    assert variants["good"]["target"] == "tests.doubles.kernels.Good"
    assert variants["copy"]["operation"] == "copy"
    for path in rows_files(measured.out):
        assert json.loads((path.parent / "config.json").read_text())["name"] == "adhoc"


def test_rows_tell_nothing_of_host_user_or_path(sweep: Command) -> None:
    done = sweep("kernel=raise", *shape(4, 4), *QUICK)
    text = "".join(path.read_text() for path in rows_files(done.out))
    assert "second line of file.py" in text
    secrets = [os.uname().nodename, str(ROOT), str(done.out.parent), "someone", os.environ["HOME"]]
    assert [secret for secret in secrets if secret in text] == []


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of the project that a test may edit."""
    copy = tmp_path / "checkout"
    copy.mkdir()
    for folder in ("conf", "experiments", "kernels", "analysis", "hydra_plugins", "tests"):
        shutil.copytree(ROOT / folder, copy / folder, ignore=shutil.ignore_patterns("__pycache__"))
    return copy


def run_in(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "experiments.run", "--config-dir", str(DOUBLES)]
    return subprocess.run(
        [*command, "out=out", "tracker=none", "gpu=cpu", "remeasure=false", *arguments],
        cwd=folder, capture_output=True, text=True, timeout=200,
    )  # fmt: skip


def test_edited_kernel_code_never_reuses_a_stale_row(checkout: Path) -> None:
    arguments = ["kernel=naive", *shape(4, 16), "dtype=float32", *QUICK]
    assert run_in(checkout, *arguments).returncode == 0
    path = checkout / "kernels" / "softmax" / "naive.py"
    path.write_text(path.read_text() + "\n# edited\n")
    assert run_in(checkout, *arguments).returncode == 0
    rows = [row for p in rows_files(checkout / "out") for row in read_rows(p)]
    assert len({row.key for row in rows if row.kernel == "naive"}) == 2
    assert len([row for row in rows if row.kernel == "copy"]) == 1


def test_only_failed_tries_failures_again_and_nothing_else(checkout: Path) -> None:
    arguments = ["kernel=wrong,good", *shape(4, 16), "dtype=float32", *QUICK]
    assert run_in(checkout, *arguments).returncode == 1
    assert run_in(checkout, *arguments, "only_failed=true").returncode == 1
    rows = [row for p in rows_files(checkout / "out") for row in read_rows(p)]
    attempts = sorted((row.kernel, row.attempt, row.status) for row in rows)
    assert attempts == [
        ("copy", 1, "ok"), ("good", 1, "ok"), ("wrong", 1, "incorrect"), ("wrong", 2, "incorrect"),
    ]  # fmt: skip
