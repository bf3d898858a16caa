"""A columnar copy gives the very table that the rows give."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from analysis.load import load
from experiments.data.rows import Row, rows_files
from tests.analysis.columns.kept import as_json, copies, same, settle, sweep
from tests.analysis.odd import SOUND
from tests.analysis.plausible import PAPER, paper, row
from tests.conftest import ROOT

TEXTS = st.one_of(st.none(), st.text(max_size=8))
NUMBERS = st.one_of(st.none(), st.integers(0, 2**62))
FLOATS = st.one_of(st.none(), st.floats(1e-6, 1e9))
JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(2**53), 2**53), st.text(max_size=4)),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=4,
)
CHANGES = st.fixed_dictionaries(
    {},
    optional={
        "card": st.integers(0, 1), "round": st.integers(0, 1), "attempt": st.integers(1, 3),
        "time_us": FLOATS, "reason": TEXTS, "late": NUMBERS, "spills": NUMBERS,
        "power_w": FLOATS, "samples_us": st.none() | st.lists(st.floats(1e-6, 1e9), max_size=4),
        "params": st.dictionaries(st.text(max_size=3), JSON, max_size=2),
        "throttled": st.none() | st.lists(st.text(max_size=4), max_size=2),
        "status": st.sampled_from(["ok", "crashed", "unsupported"]),
    },
)  # fmt: skip
POINTS = st.tuples(st.sampled_from(["naive", "fused", "copy"]), st.sampled_from(PAPER[:3]), CHANGES)


def _row(point: tuple[str, int, dict[str, Any]], sweep: int) -> Row:
    kernel, cols, changes = point
    # as read again: what is no letter is lost on the way to a file
    made = row(kernel, cols).model_copy(update=changes | {"sweep": f"s{sweep}"})
    return Row.model_validate(made.model_dump())


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(sweeps=st.lists(st.lists(POINTS, min_size=1, max_size=6), min_size=1, max_size=3))
def test_any_rows_come_out_of_the_copy_as_out_of_the_files(
    sweeps: list[list[Any]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder, patch = tmp_path_factory.mktemp("rows"), pytest.MonkeyPatch()
    for i, points in enumerate(sweeps):
        half = len(points) // 2
        for job, some in (("a", points[:half]), ("b", points[half:])):
            sweep(folder / f"s{i}", [_row(one, i) for one in some], job)
    told = as_json(folder, patch)
    same(load(folder), told)
    assert len(copies(folder)) == 3 * len(sweeps)
    same(load(folder), told)


def test_the_recorded_rows_come_out_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "reference"
    shutil.copytree(ROOT / "outputs" / "reference", folder)
    for file in rows_files(folder):
        settle(file)
    told = as_json(folder, monkeypatch)
    for _ in range(2):
        same(load(folder), told)
    assert len(copies(folder)) == 3 * len(list(folder.glob("*/sweep.json")))


@pytest.mark.parametrize("case", SOUND)
def test_odd_rows_come_out_the_same(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    SOUND[case](tmp_path)
    for file in rows_files(tmp_path):
        settle(file)
    told = as_json(tmp_path, monkeypatch)
    for _ in range(2):
        same(load(tmp_path), told)


def test_a_sweep_that_lies_in_two_folders_is_read_as_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    sweep(tmp_path / "a", [row("online", 256, time_us=7.0, attempt=2)])
    sweep(tmp_path / "b", [row("online", 256, time_us=9.0), *paper([1024])])
    same(load(tmp_path), as_json(tmp_path, monkeypatch))
    assert load(tmp_path)["time_us"].tolist()[0] == 7.0
    assert "a sweep lies in two folders" in capsys.readouterr().err
