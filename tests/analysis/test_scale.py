"""Generated rows are rows around recorded ones, and the benchmark prints what they cost."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from analysis import scale
from analysis.load import load
from analysis.scale import CARDS, SAMPLES, generate, main
from experiments.data.files import RowsError
from experiments.data.rows import rows_files
from tests.analysis.limit_rows import limits
from tests.analysis.plausible import write

KERNELS = ("auto", "torch", "copy")


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    """A sweep of three kernels at two widths."""
    folder, shapes = tmp_path / "recorded", [(4096, 1024), (4096, 4096)]
    write(folder / "job", limits(shapes, KERNELS, ["float32"], ["events"], rounds=1))
    for name in ("sweep.json", "variants.json", "job/config.json"):
        (folder / name).write_text("{}")
    return folder


def test_generated_rows_vary_around_recorded_ones_and_are_the_same_for_a_seed(
    recorded: Path, tmp_path: Path
) -> None:
    rows, again = tmp_path / "rows", tmp_path / "again"
    nights = generate(recorded, rows, 400)
    frame, known = load(rows), load(recorded)
    assert len(frame) == 400
    assert frame["sweep"].nunique() == nights
    assert set(frame["card"]) == set(range(CARDS))
    samples = frame["samples_us"]
    assert samples.map(len).eq(SAMPLES).all()
    assert frame["time_us"].between(samples.map(min), samples.map(max)).all()
    point = ["kernel", "cols"]
    ratio = frame.groupby(point)["time_us"].median() / known.groupby(point)["time_us"].median()
    assert ratio.between(0.9, 1.1).all()
    assert frame.groupby(point)["time_us"].nunique().min() > 1
    for night in rows.iterdir():
        assert {path.name for path in night.iterdir()} == {"sweep.json", "variants.json", "job"}
    generate(recorded, again, 400)
    for path in rows_files(again):
        assert (rows / path.relative_to(again)).read_bytes() == path.read_bytes()


def test_what_is_no_recorded_sweep_is_refused_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(RowsError, match="name a recorded sweep"):
        generate(tmp_path, tmp_path / "out", 10)
    assert main(["--rows", "10", "--source", str(tmp_path)]) == 2
    assert re.fullmatch(r"error: no rows in .*\n", capsys.readouterr().err)


@pytest.mark.usefixtures("inside", "small_pictures")
def test_the_benchmark_prints_a_line_for_each_number_of_rows_and_keeps_the_rows(
    recorded: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def measured(rows: Path, out: Path) -> scale.Costs:
        """As the process of its own that it starts, which would import everything anew."""
        assert main(["--measure", str(rows), "--out", str(out)]) == 0
        costs: scale.Costs = json.loads(capsys.readouterr().out)
        return costs

    monkeypatch.setattr(scale, "_process", measured)
    assert main(["--rows", "60", "120", "--source", str(recorded), "--out", "made"]) == 0
    line = r"\|( [\d,.]+ \|){2}( [\d.]+ \([\d.]+\) \|){6}"
    assert re.search(rf"^\| 60 {line}.*\n\| 120 {line}", capsys.readouterr().out, re.M)
    assert len(load(Path("made") / "rows-60")) == 60
