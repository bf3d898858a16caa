"""What sources printed stands beside rows as a series of its own, and only where it compares."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from matplotlib.axes import Axes

from analysis.figures.draw import LineFigure as Figure
from analysis.figures.specs import A_FIG2, C_FIG2, C_FIG3, D_FIG1, E_FIG1, WIDTHS
from analysis.figures.style import STYLES
from analysis.published import series
from experiments.data.rows import Row
from tests.analysis.drawing import NARROW, VOCABULARY, draw, lines, words
from tests.analysis.plausible import paper, row

BATCHES = (512, 2048, 8192, 32768)


def vocabulary(*kernels: str, scale: float = 1.0) -> list[Row]:
    found = [row(k, n, rows=8192, dtype="float16") for k in kernels for n in VOCABULARY]
    return [slower(r, scale) for r in found]


def slower(known: Row, scale: float) -> Row:
    times = ("time_us", "time_low_us", "time_high_us")
    return known.model_copy(update={name: scale * getattr(known, name) for name in times})


def test_times_of_source_a_are_drawn_as_printed(tmp_path: Path) -> None:
    drawn = lines(draw(tmp_path, A_FIG2, paper()))
    for kernel, times in series("a_fig2").kernels.items():
        expected = np.array([WIDTHS, times], dtype=float).T
        assert drawn[f"A: {kernel}"] == pytest.approx(expected)


@pytest.mark.parametrize("figure", [C_FIG2, C_FIG3], ids=lambda figure: str(figure.id))
def test_points_of_source_c_stand_at_its_worked_shape(tmp_path: Path, figure: Figure) -> None:
    over = figure is C_FIG2
    rows = [row(k, 32000, rows=m, dtype="float16") for k in ("torch", "copy") for m in BATCHES]
    sheet = draw(tmp_path, figure, rows if over else vocabulary("torch", "copy"))
    at = 8192 if over else 32000
    assert lines(sheet)["C: torch"].tolist() == [[at, 901.02]]
    assert lines(sheet)["C: hybrid"].tolist() == [[at, 863.02]]
    assert "as C printed" in words(sheet)


def test_numbers_of_source_c_are_of_hybrid_as_c_ran_it_where_that_was_timed(tmp_path: Path) -> None:
    sheet = draw(tmp_path, C_FIG3, vocabulary("torch", "hybrid", "hybrid_whole"))
    assert lines(sheet)["C: hybrid_whole"].tolist() == [[32000, 863.02]]
    assert "C: hybrid" not in lines(sheet)
    assert line_of(sheet.axes[0], "C: hybrid_whole") == STYLES["hybrid_whole"].color
    band = next(p for p in sheet.axes[0].patches if p.get_label() == "C: hybrid_whole 870–900")
    assert (band.get_extents().transformed(sheet.axes[0].transData.inverted()).y0) == (
        pytest.approx(870)
    )


def line_of(ax: Axes, label: str) -> str:
    return next(str(line.get_color()) for line in ax.get_lines() if line.get_label() == label)


def test_levels_of_a_and_d_stand_in_d_fig1_by_name(tmp_path: Path) -> None:
    sheet = draw(tmp_path, D_FIG1, paper(NARROW))
    drawn = lines(sheet)
    for name, value in (("A: fused 1,448", 1448), ("A: torch 1,515", 1515),
                        ("D: fused 1,400+", 1400)):  # fmt: skip
        assert set(drawn[name][:, 1]) == {value}
        assert name in words(sheet).splitlines()
    assert "cards unknown" in words(sheet)


def test_published_numbers_stand_only_beside_their_own_shape_and_dtype(tmp_path: Path) -> None:
    elsewhere = [[row(k, n, **place) for k in ("torch", "fused_row", "copy") for n in NARROW]
                 for place in ({"rows": 512}, {"dtype": "bfloat16"})]  # fmt: skip
    for rows in elsewhere:
        for figure in (A_FIG2, C_FIG3, D_FIG1, E_FIG1):
            sheet = draw(tmp_path, figure, rows)
            drawn = {label for panel in range(len(sheet.axes)) for label in lines(sheet, panel)}
            assert not [label for label in drawn if ": " in label or "E's" in label]
            assert "printed" not in words(sheet)


def test_on_a_slow_card_what_was_published_is_named_above_the_axes(tmp_path: Path) -> None:
    slow = vocabulary("torch", "copy", scale=100)
    sheet = draw(tmp_path, C_FIG3, [r.model_copy(update={"gpu": "Some Card"}) for r in slow])
    top = sheet.axes[0].get_ylim()[1]
    assert top < 100  # the lines keep the axes
    shown = words(sheet).splitlines()
    assert {"C: torch ↑", "C: hybrid ↑", "C: hybrid 870–900 ↑", "torch"} <= set(shown)


def test_e_fig1_draws_the_ratio_below_and_only_what_e_claims(tmp_path: Path) -> None:
    rows = [row(k, n) for k in ("torch", "fused_row", "fused", "copy") for n in NARROW]
    sheet = draw(tmp_path, E_FIG1, rows)
    above, below = lines(sheet, 0), lines(sheet, 1)
    assert "fused" not in above
    assert set(above["E's card"][:, 1]) == {1008}
    assert set(below["E: up to 3×"][:, 1]) == {3}
    bandwidth = {kernel: above[kernel][:, 1] for kernel in ("torch", "fused_row")}
    assert below["fused_row"][:, 1] == pytest.approx(bandwidth["fused_row"] / bandwidth["torch"])
    assert "prints no numbers" in words(sheet)
