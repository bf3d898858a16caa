"""Folders of sweeps whose columnar copies are to be kept, however few rows they have."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import pandas as pd
import pytest

from analysis import columns
from analysis.load import load
from experiments.data.rows import Row
from tests.analysis.plausible import write


def sweep(folder: Path, rows: Iterable[Row], job: str = "job") -> Path:
    """A sweep's folder with a job, written long ago; returns the rows file."""
    file = write(folder / job, list(rows)) / "rows.jsonl"
    (folder / "sweep.json").write_text("{}")
    return settle(file)


def settle(file: Path) -> Path:
    """Sets the time of its last change back, as if nobody had just written it."""
    changed = file.stat().st_mtime - 3600
    os.utime(file, (changed, changed))
    return file


def as_json(folder: Path, patch: pytest.MonkeyPatch) -> pd.DataFrame:
    """Its table, from the rows files alone."""
    with patch.context() as here:
        here.setattr(columns, "LARGE_BYTES", 2**60)
        return load(folder)


def same(one: pd.DataFrame, other: pd.DataFrame) -> None:
    """Asserts that two tables are equal: columns, types, order, values, samples."""
    taken = [[s if s is None else list(s) for s in frame["samples_us"]] for frame in (one, other)]
    assert taken[0] == taken[1]
    pd.testing.assert_frame_equal(
        one.drop(columns="samples_us"), other.drop(columns="samples_us"), check_exact=True
    )
    assert list(one.columns) == list(other.columns)


def copies(folder: Path) -> list[Path]:
    """Every file of every copy below a folder."""
    return sorted(path for path in folder.rglob(".rows/*") if path.is_file())


def times(folder: Path) -> list[tuple[Path, int]]:
    """When each was written."""
    return [(path, path.stat().st_mtime_ns) for path in copies(folder)]
