"""Variants against themselves: what the noise floor says, and what ``selftest`` writes of it."""

import math
import re
from pathlib import Path

import pandas as pd
import pytest

from analysis.__main__ import main
from analysis.load import load
from analysis.selftest import floor_lines, twins_of
from experiments.data.rows import Row
from tests.analysis.conftest import Refused
from tests.analysis.noisy import TIMES_US, twins
from tests.analysis.plausible import row, write


def pairs(tmp_path: Path, rows: list[Row]) -> pd.DataFrame:
    return twins_of(load(write(tmp_path / "rows", rows)))


def test_only_rounds_that_both_twins_have_are_compared(tmp_path: Path) -> None:
    rows = twins(rounds=4, times_us=[50.0], kernels=["torch"])
    lost = [r for r in rows if not (r.kernel == "torch-b" and r.round == 1)]
    broken = rows[0].model_copy(update={"status": "incorrect", "attempt": 2})  # round 0
    first, second = (
        [r.time_us or 0 for r in lost if r.kernel == f"torch-{twin}" and r.round > 1]
        for twin in "ab"
    )
    [pair] = pairs(tmp_path, [*lost, broken]).itertuples()
    assert pair.rounds == 2
    assert pair.ratio == pytest.approx(math.sqrt(math.prod(first) / math.prod(second)))


def test_twins_differ_no_more_often_than_stated_and_a_resolvable_slowdown_is_seen(
    tmp_path: Path,
) -> None:
    found = pairs(tmp_path, twins(kernels=[f"k{i}" for i in range(10)]))
    assert len(found) == 10 * len(TIMES_US)
    assert found["differs"].mean() <= 0.05
    floor = found["resolvable"].quantile(0.95, "higher")
    assert floor_lines(found)[0]["resolves"] == f"{100 * floor:.2f} %"
    assert 0.001 < floor < 0.02
    for slowdown in (1.0002 + floor, 1 / (1.0002 + floor)):
        slower = pairs(tmp_path, twins(slower_b=slowdown))
        assert slower["differs"].mean() >= 0.9


def test_a_missing_part_is_named_and_the_rest_is_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], refused: Refused
) -> None:
    folder = write(tmp_path / "rows", twins(rounds=1, times_us=[50.0]))
    assert main(["selftest", "--rows", str(folder), "--out", "out"]) == 0
    assert re.fullmatch(r"skipped: timers needs .*\n", capsys.readouterr().err)
    assert (tmp_path / "out" / "floor.md").read_text().startswith("## The noise floor\n")
    alone = write(tmp_path / "alone", [row("torch", 1024)])
    error = refused("selftest", "--rows", str(alone), "--out", "none")
    assert re.search("no variant stands against itself.*experiment=selftest\n", error)
    assert not (tmp_path / "none").exists()
