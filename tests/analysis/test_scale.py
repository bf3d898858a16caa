"""Generated rows are rows around recorded ones; the benchmark of them is run by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from analysis.load import load
from analysis.scale import SAMPLES, generate
from experiments.data.files import RowsError
from tests.analysis.limit_rows import limits
from tests.analysis.plausible import write


def test_generated_rows_vary_around_recorded_ones(tmp_path: Path) -> None:
    recorded, rows, shapes = tmp_path / "recorded", tmp_path / "rows", [(4096, 1024), (4096, 4096)]
    write(recorded / "job", limits(shapes, ("auto", "copy"), ["float32"], ["events"], rounds=1))
    (recorded / "job" / "config.json").write_text("{}")
    generate(recorded, rows, 30)
    frame, known = load(rows), load(recorded)
    assert len(frame) == 30
    assert frame["sweep"].nunique() == 8
    assert frame["samples_us"].map(len).eq(SAMPLES).all()
    point = ["kernel", "cols"]
    ratio = frame.groupby(point)["time_us"].median() / known.groupby(point)["time_us"].median()
    assert ratio.between(0.97, 1.03).all()
    assert frame.groupby(point)["time_us"].nunique().min() > 1


def test_a_folder_without_rows_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RowsError, match="name a recorded sweep"):
        generate(tmp_path, tmp_path / "out", 10)
