from pathlib import Path

from analysis.load import load
from analysis.selection import Query, Selection, select
from experiments.data.rows import Row
from tests.analysis.plausible import row, write


def see(tmp_path: Path, rows: list[Row]) -> Selection:
    found = select(load(write(tmp_path, rows)), rows[0].gpu, Query(4096, "float32"))
    assert found is not None
    return found


def test_protocols_are_never_mixed_and_cold_events_come_first(tmp_path: Path) -> None:
    rows = [row("torch", n, time_us=1.0, cache="warm") for n in (256, 512, 1024)]
    rows += [row("torch", n, time_us=2.0, timer="graph") for n in (256, 512, 1024)]
    rows += [row("torch", n, time_us=3.0, key=f"cold{n}") for n in (256, 1024)]
    found = see(tmp_path, rows)
    assert (found.timer, found.cache) == ("events", "cold")
    assert found.points[["cols", "time_us"]].to_numpy().tolist() == [[256, 3.0], [1024, 3.0]]
    warm = see(tmp_path / "warm", rows[:3])
    assert (warm.timer, warm.cache) == ("events", "warm")


def test_the_shape_asked_for_comes_first_and_the_most_widths_next(tmp_path: Path) -> None:
    rows = [row("torch", n, rows=64) for n in (256, 512)]
    rows += [row("torch", n, rows=128) for n in (256, 512, 1024)]
    rows += [row("torch", 256)]  # one width at M = 4096 is not a line
    for more, shape in (
        ([], (128, "float32", False)),
        ([row("torch", 512)], (4096, "float32", True)),
    ):
        found = see(tmp_path, [*rows, *more])
        assert (found.at, found.dtype, found.exact) == shape
