"""A recording keeps a sweep's rows, jobs and records, and damage to it is one line."""

import gzip
import json
import os
from pathlib import Path

import pytest

from experiments.data.files import RowsError
from experiments.data.recordings import pack, recorded_jobs
from experiments.data.rows import Row, read_rows, rows_files
from experiments.sweep.record import append_row
from tests.experiments.test_rows import row


@pytest.fixture
def sweep(tmp_path: Path) -> Path:
    folder = tmp_path / "sweep"
    for kernel in ("naive", "online"):
        job = folder / "wide" / "native-auto" / kernel
        for cols in (256, 1024):
            append_row(job / "rows.jsonl", row(key=f"{kernel}{cols}", kernel=kernel, cols=cols))
        (job / "config.json").write_text(json.dumps({"kernel": {"_target_": kernel}}))
    (folder / "sweep.json").write_text('{"sweep": "sweep-1"}')
    (folder / "worker.log").write_text("a path of this machine")
    return folder


def rows_below(folder: Path) -> list[Row]:
    return [one for path in rows_files(folder) for one in read_rows(path)]


def test_a_recording_has_the_rows_and_jobs_of_its_sweep_and_nothing_else(
    sweep: Path, tmp_path: Path
) -> None:
    made = pack(sweep, tmp_path / "packed")
    assert sorted(path.name for path in made) == ["jobs.jsonl.gz", "rows.jsonl.gz", "sweep.json"]
    assert {path.name for path in (tmp_path / "packed").iterdir()} == {p.name for p in made}
    assert rows_below(tmp_path / "packed") == rows_below(sweep)
    assert list(recorded_jobs(tmp_path / "packed")) == list(recorded_jobs(sweep))
    again = pack(sweep, tmp_path / "again")
    assert [one.read_bytes() for one in again] == [one.read_bytes() for one in made]


@pytest.mark.parametrize("at", [0, 12, 40, -6, -2])
def test_a_flipped_bit_anywhere_is_one_line(sweep: Path, tmp_path: Path, at: int) -> None:
    path = pack(sweep, tmp_path / "packed")[0]
    data = bytearray(path.read_bytes())
    data[at] ^= 4
    path.write_bytes(data)
    with pytest.raises(RowsError, match=r"rows.jsonl.gz") as caught:
        rows_below(path.parent)
    assert "\n" not in str(caught.value)


def test_a_cut_file_a_pipe_and_a_line_without_end_are_one_line(sweep: Path, tmp_path: Path) -> None:
    path = pack(sweep, tmp_path / "packed")[0]
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(RowsError, match="damaged"):
        rows_below(path.parent)
    path.write_bytes(gzip.compress(b" " * 2**26))
    with pytest.raises(RowsError, match="a line of more than 4 MB"):
        rows_below(path.parent)
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(RowsError, match="not a plain file"):
        rows_below(path.parent)


def test_jobs_that_do_not_fit_the_rows_are_one_line(sweep: Path, tmp_path: Path) -> None:
    pack(sweep, tmp_path / "packed")
    jobs = tmp_path / "packed" / "jobs.jsonl.gz"
    for text in ("[]", '{"job": "a", "rows": 9, "config": null}', "{"):
        jobs.write_bytes(gzip.compress(text.encode()))
        with pytest.raises(RowsError, match="no job of these rows"):
            list(recorded_jobs(tmp_path / "packed"))
