"""A recording keeps a sweep's rows, jobs and records, and damage to it is one line."""

import gzip
import json
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


def test_damage_is_one_line(sweep: Path, tmp_path: Path) -> None:
    path, jobs = (pack(sweep, tmp_path / "packed")[i] for i in (0, 1))
    whole = path.read_bytes()
    flipped = [bytes([*whole[:at], whole[at] ^ 4, *whole[at + 1 :]]) for at in (0, 12, 40)]
    for data in (*flipped, whole[:-20], gzip.compress(b" " * 2**26)):
        path.write_bytes(data)
        with pytest.raises(RowsError, match=r"^[^\n]*rows.jsonl.gz[^\n]*$"):
            rows_below(path.parent)
    path.write_bytes(whole)
    for text in ("[]", '{"job": "a", "rows": 9, "config": null}', "{"):
        jobs.write_bytes(gzip.compress(text.encode()))
        with pytest.raises(RowsError, match="no job of these rows"):
            list(recorded_jobs(tmp_path / "packed"))
