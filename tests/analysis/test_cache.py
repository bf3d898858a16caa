"""Rows of large sweeps come out of their copies as out of the files, and no copy is ever stale."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable
from pathlib import Path

import pandas as pd
import pytest

from analysis import cache
from analysis.load import load
from experiments.data.rows import Row
from tests.analysis.plausible import paper, row, unsupported, write


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "LARGE_BYTES", 0)
    monkeypatch.setattr(cache, "FOLDER", tmp_path / "outputs" / ".rows")


def sweep(folder: Path, rows: Iterable[Row], job: str = "job") -> Path:
    """A sweep's folder with a job, written long ago; returns the rows file."""
    file = write(folder / job, list(rows)) / "rows.jsonl"
    (folder / "sweep.json").write_text("{}")
    return settled(file)


def settled(file: Path) -> Path:
    changed = file.stat().st_mtime - 3600
    os.utime(file, (changed, changed))
    return file


def same_as_files(folder: Path) -> pd.DataFrame:
    """Asserts that a folder's table is the one that its files alone make; returns it."""
    with pytest.MonkeyPatch.context() as here:
        here.setattr(cache, "LARGE_BYTES", 2**60)
        files = load(folder)
    kept = load(folder)
    taken = [[s if s is None else list(s) for s in one["samples_us"]] for one in (files, kept)]
    assert taken[0] == taken[1]
    pd.testing.assert_frame_equal(
        kept.drop(columns="samples_us"), files.drop(columns="samples_us"), check_exact=True
    )
    return kept


def copies() -> dict[str, int]:
    return {path.name: path.stat().st_mtime_ns for path in cache.FOLDER.glob("*")}


def test_rows_come_out_of_the_copy_as_out_of_the_files(tmp_path: Path) -> None:
    samples = (None, [], [1e-6, 2.5, 1e9])
    odd = [row("naive", 256, round=i, samples_us=one) for i, one in enumerate(samples)]
    odd += [row("fused", 1024, params={"p": [{"x": None}, True, 2**53]}, throttled=["t", ""]),
            row("fused", 4096, power_w=3.5, late=2**53, reason="ab", suspect=["a: b"])]  # fmt: skip
    failed = [unsupported("fused", n, sweep="b", throttled=[]) for n in (256, 1024)]
    for name, job, rows in (("a", "x", odd[:3]), ("a", "y", odd[3:]), ("b", "x", failed)):
        sweep(tmp_path / "rows" / name, rows, job)
    same_as_files(tmp_path / "rows")
    assert len(copies()) == 2
    same_as_files(tmp_path / "rows")


@pytest.fixture
def nights(tmp_path: Path) -> Path:
    for name in ("a", "b"):
        rows = [one.model_copy(update={"sweep": name}) for one in paper([256, 1024])]
        sweep(tmp_path / "rows" / name, rows)
    load(tmp_path / "rows")
    return tmp_path / "rows"


@pytest.mark.parametrize("change", ["appended", "in place", "job added"])
def test_a_change_of_rows_shows_at_once_and_other_copies_stay(nights: Path, change: str) -> None:
    before = copies()
    file = nights / "b" / "job" / "rows.jsonl"
    old, text = file.stat(), file.read_text()
    if change == "appended":
        file.write_text(text + row("online", 4096, sweep="b").model_dump_json() + "\n")
    elif change == "in place":  # of the same size, by someone who puts the time back as well
        file.write_text(text.replace('"card":0', '"card":5', 1))
        os.utime(file, ns=(old.st_atime_ns, old.st_mtime_ns))
    else:
        sweep(nights / "b", [row("online", 512, sweep="b")], "more")
    same_as_files(nights)
    settled(file)
    same_as_files(nights)
    assert len(copies()) == 2
    assert len(copies().items() & before.items()) == 1


@pytest.mark.parametrize("damage", [b"", b"\x80\x04N.", None])
def test_a_damaged_copy_is_made_again(nights: Path, damage: bytes | None) -> None:
    path = min(cache.FOLDER.glob("*"))
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data if damage is None else damage)
    damaged = path.read_bytes()
    same_as_files(nights)
    assert path.read_bytes() != damaged


def test_rows_that_are_being_written_are_not_kept_yet(tmp_path: Path) -> None:
    sweep(tmp_path / "rows", paper([256])).touch()
    assert len(load(tmp_path / "rows")) == len(paper([256]))
    assert copies() == {}


def test_a_sweep_that_lies_in_two_folders_is_read_as_one(tmp_path: Path) -> None:
    sweep(tmp_path / "rows" / "a", [row("online", 256, time_us=7.0, attempt=2)])
    sweep(tmp_path / "rows" / "b", [row("online", 256, time_us=9.0), *paper([1024])])
    for _ in range(2):
        assert same_as_files(tmp_path / "rows")["time_us"].tolist()[0] == 7.0


def test_without_pyarrow_rows_are_read_all_the_same(
    nights: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = copies()
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert len(load(nights)) == 2 * len(paper([256, 1024]))
    assert copies() == before


def test_nothing_beside_the_rows_is_written_and_a_linked_folder_is_left_alone(
    nights: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    victim = tmp_path / "victim"
    victim.mkdir()
    (victim / "kept").write_text("mine")
    for name in (".rows", "rows.parquet"):
        (nights / "a" / name).symlink_to(victim)
    monkeypatch.setattr(cache, "FOLDER", tmp_path / "linked")
    (tmp_path / "linked").symlink_to(victim)
    same_as_files(nights)
    assert [path.name for path in victim.iterdir()] == ["kept"]


def test_other_processes_make_copies_of_what_comes_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(cache, "FOLDER", Path("outputs") / ".rows")
    folder = tmp_path / "nights"
    units = {
        folder / f"night-{i}": [sweep(folder / f"night-{i}", [row("naive", 256, sweep=f"n-{i}")])]
        for i in range(3)
    }
    monkeypatch.setattr(cache, "MANY_BYTES", 1)
    monkeypatch.setattr(cache, "MOST_PROCESSES", 2)
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    with cache._helped(units):  # one other process, while this one reads nothing
        end = time.monotonic() + 60
        while len(copies()) < 3 and time.monotonic() < end:
            time.sleep(0.05)
    assert len(copies()) == 3
    made = copies()
    assert list(same_as_files(folder)["sweep"]) == ["n-0", "n-1", "n-2"]
    assert copies() == made
