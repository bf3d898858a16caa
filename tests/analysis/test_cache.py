"""Rows of large sweeps come out of their copies as out of the files, and no copy is ever stale."""

from __future__ import annotations

import os
import pickle
import random
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from analysis import cache
from analysis.load import load
from experiments.data.rows import Row
from tests.analysis.plausible import PAPER, paper, row, write

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text("ab\n", max_size=4),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text("xy"), inner, max_size=2),
    max_leaves=3,
)
FLOATS = st.none() | st.floats(1e-6, 1e9)
CHANGES = st.fixed_dictionaries(
    {},
    optional={
        "card": st.integers(0, 1), "attempt": st.integers(1, 3), "time_us": FLOATS,
        "reason": st.none() | st.text("abc", max_size=4), "late": st.none() | st.integers(0, 2**53),
        "power_w": FLOATS, "samples_us": st.none() | st.lists(st.floats(1e-6, 1e9), max_size=4),
        "params": st.dictionaries(st.text("pq"), JSON, max_size=2),
        "throttled": st.none() | st.lists(st.text("t", max_size=4), max_size=2),
        "status": st.sampled_from(["ok", "crashed", "unsupported"]),
    },
)  # fmt: skip
POINTS = st.tuples(st.sampled_from(["naive", "fused", "copy"]), st.sampled_from(PAPER[:3]), CHANGES)


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(cache, "LARGE_BYTES", 0)
    monkeypatch.setattr(cache, "FOLDER", tmp_path / "outputs" / ".rows")
    return


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


@settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck))
@given(sweeps=st.lists(st.lists(POINTS, min_size=1, max_size=6), min_size=1, max_size=3))
def test_any_rows_come_out_of_the_copy_as_out_of_the_files(
    sweeps: list[list[tuple[str, int, dict[str, Any]]]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("rows")
    for i, points in enumerate(sweeps):
        rows = [row(kernel, n, sweep=f"s{i}", **changes) for kernel, n, changes in points]
        sweep(folder / f"s{i}", rows[: len(rows) // 2], "a")
        sweep(folder / f"s{i}", rows[len(rows) // 2 :], "b")
    before = set(copies())
    same_as_files(folder)
    assert len(set(copies()) - before) == len(sweeps)
    same_as_files(folder)


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


@pytest.mark.parametrize("seed", range(4))
def test_a_damaged_copy_is_made_again(nights: Path, seed: int) -> None:
    dice = random.Random(seed)
    path = dice.choice(sorted(cache.FOLDER.glob("*")))
    data = bytearray(path.read_bytes())
    data[dice.randrange(len(data))] ^= 1 << dice.randrange(8)
    path.write_bytes(dice.choice([data, data[: dice.randrange(len(data))], b""]))
    damaged = path.read_bytes()
    same_as_files(nights)
    assert path.read_bytes() != damaged


def test_a_copy_is_never_unpickled(nights: Path) -> None:
    for path in cache.FOLDER.glob("*"):
        path.write_bytes(pickle.dumps(Bomb()))
    same_as_files(nights)


class Bomb:
    def __reduce__(self) -> tuple[Any, ...]:
        return pytest.fail, ("unpickled",)


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
