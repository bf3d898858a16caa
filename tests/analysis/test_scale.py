"""Generated rows are rows, and what they cost is told."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from analysis.load import load
from analysis.scale import CARDS, ROUNDS, SAMPLES, generate, main
from experiments.data.files import RowsError
from experiments.data.rows import read_rows, rows_files
from tests.conftest import ROOT

RECORDED = ROOT / "outputs" / "reference" / "h200_exploration"


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("scale") / "rows"
    assert generate(RECORDED, out, 1000) == 3
    return out


def test_every_generated_row_is_a_row_with_the_samples_that_its_time_is_of(generated: Path) -> None:
    rows = [row for path in rows_files(generated) for row in read_rows(path)]
    assert len(rows) == 1000
    timed = [row for row in rows if row.time_us is not None]
    assert {len(row.samples_us or ()) for row in timed} == {SAMPLES}
    assert all(min(row.samples_us) <= row.time_us <= max(row.samples_us) for row in timed)
    assert {row.card for row in rows} == set(range(CARDS))
    assert {row.round for row in rows} == set(range(ROUNDS))
    assert len({row.sweep for row in rows}) == 3


def test_generated_nights_are_sweeps_whose_rows_differ_as_recorded_ones_do(generated: Path) -> None:
    frame, recorded = load(generated), load(RECORDED)
    assert len(frame) == 1000
    point = ["kernel", "rows", "cols", "dtype"]
    ratio = frame.groupby(point)["time_us"].median() / recorded.groupby(point)["time_us"].median()
    assert ratio.dropna().between(0.9, 1.1).all()
    assert frame.groupby(point)["time_us"].nunique()[ratio.notna()].min() > 1
    for night in generated.iterdir():
        assert {path.name for path in night.iterdir()} >= {"sweep.json", "variants.json"}


def test_the_same_seed_gives_the_same_rows(generated: Path, tmp_path: Path) -> None:
    generate(RECORDED, tmp_path / "again", 1000)
    for path in rows_files(generated):
        assert (tmp_path / "again" / path.relative_to(generated)).read_bytes() == path.read_bytes()


def test_what_is_no_recorded_sweep_is_refused_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(RowsError, match="name a recorded sweep"):
        generate(tmp_path, tmp_path / "out", 10)
    assert main(["--rows", "10", "--source", str(tmp_path)]) == 2
    assert re.fullmatch(r"error: no rows in .*\n", capsys.readouterr().err)


def test_the_benchmark_tells_each_number_of_rows_and_keeps_them_where_asked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    assert main(["--rows", "200", "--source", str(RECORDED), "--out", str(tmp_path)]) == 0
    told = capsys.readouterr().out
    assert re.search(r"^\| 200 \|( [\d,.]+ \|){2}( [\d.]+ \([\d.]+\) \|){6}", told, re.M), told
    assert len(load(tmp_path / "rows-200")) == 200
