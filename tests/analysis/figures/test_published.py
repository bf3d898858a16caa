"""What sources printed stands beside rows as a series of its own, and only where it compares."""

from __future__ import annotations

from pathlib import Path

import pytest

from analysis.figures.draw import LineFigure
from analysis.figures.specs import A_FIG2, C_FIG3, D_FIG1, E_FIG1
from analysis.figures.style import STYLES
from experiments.data.rows import Row
from tests.analysis.drawing import NARROW, VOCABULARY, draw, lines, words
from tests.analysis.plausible import row


def vocabulary(*kernels: str, scale: float = 1.0, **changes: object) -> list[Row]:
    place = {"rows": 8192, "dtype": "float16"}
    times = [(k, n, row(k, n, **place).time_us or 0) for k in kernels for n in VOCABULARY]
    return [row(k, n, time_us=scale * time, **place, **changes) for k, n, time in times]


def test_numbers_of_source_c_are_of_hybrid_as_c_ran_it_where_that_was_timed(tmp_path: Path) -> None:
    canvas = draw(tmp_path, C_FIG3, vocabulary("torch", "hybrid", "hybrid_whole"))
    ax, name = canvas.axes[0], "C: hybrid_whole"
    assert lines(canvas)[name].tolist() == [[32000, 863.02]]
    assert "C: hybrid" not in lines(canvas)
    [line] = [line for line in ax.get_lines() if line.get_label() == name]
    assert line.get_color() == STYLES["hybrid_whole"].color
    assert f"{name} 870–900" in [patch.get_label() for patch in ax.patches]
    assert "as C printed" in words(canvas)


@pytest.mark.parametrize(
    ("figure", "place"),
    [(A_FIG2, {"dtype": "bfloat16"}), (C_FIG3, {"rows": 512}), (D_FIG1, {"rows": 512}),
     (E_FIG1, {"dtype": "bfloat16"})],
    ids=lambda value: str(getattr(value, "id", value)),
)  # fmt: skip
def test_published_numbers_stand_only_beside_their_own_shape_and_dtype(
    figure: LineFigure, place: dict[str, object], tmp_path: Path
) -> None:
    rows = [row(k, n, **place) for k in ("torch", "fused_row", "copy") for n in NARROW]
    canvas = draw(tmp_path, figure, rows)
    drawn = {label for panel in range(len(canvas.axes)) for label in lines(canvas, panel)}
    assert not [label for label in drawn if ": " in label or "E's" in label]
    assert "printed" not in words(canvas)


def test_on_a_slow_card_what_was_published_is_named_above_the_axes(tmp_path: Path) -> None:
    rows = vocabulary("torch", "copy", scale=100, gpu="Some Card")
    canvas = draw(tmp_path, C_FIG3, rows)
    assert canvas.axes[0].get_ylim()[1] < 100  # the lines keep the axes
    shown = words(canvas).splitlines()
    assert {"C: torch ↑", "C: hybrid ↑", "C: hybrid 870–900 ↑", "torch"} <= set(shown)
