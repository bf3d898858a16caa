"""A disk that is full or read-only, and a clock that runs backwards."""

import os
import resource
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from experiments.data.rows import read_rows, rows_files
from tests.conftest import QUICK, ROOT, Command, command_line, once_each, shape

ARGUMENTS = ["kernel=good", *shape(4, [*range(8, 28)]), "dtype=float32", *QUICK]


def files_of_at_most(size_bytes: int) -> Callable[[], None]:
    """As a full disk: a file takes so many bytes, and a write beyond fails in its middle."""
    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, size_bytes))


def limited(out: Path, size_bytes: int) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command_line(out, *ARGUMENTS), cwd=ROOT, capture_output=True, text=True, timeout=200,
        preexec_fn=files_of_at_most(size_bytes),
    )  # fmt: skip


def test_a_disk_that_fills_costs_one_line_and_no_row_that_was_written(
    sweep: Command, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    full = limited(out, 12_000)
    assert full.returncode == 1, full.stderr
    [line] = [line for line in full.stderr.splitlines() if line.startswith("error: ")]
    assert "rows.jsonl: File too large" in line
    assert "Traceback" not in full.stderr
    before = [row for path in rows_files(out) for row in read_rows(path)]
    assert 0 < len(before) < 40
    done = sweep(*ARGUMENTS)
    assert done.status == 0, done.stderr
    assert len(done.rows) == 40
    assert once_each(done.rows)
    assert all(row in done.rows for row in before)


def test_a_disk_without_room_for_the_plan_is_named_before_anything_is_measured(
    tmp_path: Path,
) -> None:
    done = limited(tmp_path / "out", 200)
    assert done.returncode == 2
    [line] = done.stderr.splitlines()
    assert line.startswith("error: cannot write")
    assert "File too large" in line
    assert rows_files(tmp_path / "out") == []


def test_a_folder_that_takes_no_file_is_named(sweep: Command) -> None:
    done = sweep(*ARGUMENTS, out=Path("/proc/self/fdinfo/out"))  # not even the superuser's
    assert done.status == 2
    assert "/proc/self/fdinfo/out" in done.error


@pytest.mark.skipif(os.geteuid() == 0, reason="a superuser writes to read-only folders")
def test_a_read_only_folder_is_named_and_nothing_is_lost(sweep: Command) -> None:
    before = sweep(*ARGUMENTS)
    folder = rows_files(before.out)[0].parent
    folder.chmod(0o500)
    try:
        done = sweep(*ARGUMENTS, "overwrite=true")
    finally:
        folder.chmod(0o700)
    assert done.status in (1, 2)
    assert str(folder) in done.error
    assert done.rows[: len(before.rows)] == before.rows


def test_a_clock_that_runs_backwards_changes_no_duration(sweep: Command, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import itertools, os, time\n"
        "back = itertools.count(time.time(), -3600)\n"
        "time.time = lambda: next(back)\n"
        "time.time_ns = lambda: int(next(back)) * 10**9\n"
        f"open({str(tmp_path / 'loaded')!r}, 'a').write('x')\n"
    )
    done = sweep(*ARGUMENTS, PYTHONPATH=str(tmp_path))
    assert done.status == 0, done.stderr
    assert len((tmp_path / "loaded").read_text()) >= 2  # the command and its worker
    for row in done.rows:
        assert row.wall_s > row.sampling_s > 0  # type: ignore[operator]
        assert 0 < row.wall_s < 60  # type: ignore[operator]
    assert " in -" not in done.stdout
