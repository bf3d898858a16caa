"""Lines over a size: what is drawn of rows that are good, failed, above the roof, or of no card."""

from pathlib import Path

import numpy as np
import pytest

from analysis.figures.lines import LineFigure
from analysis.figures.specs import A_FIG2, C_FIG3, D_FIG1, E_FIG1
from analysis.selection import Query
from tests.analysis.drawing import NARROW, draw, lines, words
from tests.analysis.plausible import LOSS_SHAPES, PAPER, loss, row, unsupported
from tests.conftest import ROOT


def test_the_line_breaks_where_no_valid_time_was_recorded(tmp_path: Path) -> None:
    rows = [row("torch", n) for n in NARROW] + [unsupported("naive", n) for n in NARROW]
    rows += [row("fused", n) for n in NARROW if n not in (256, 1024, 4096)]
    rows += [unsupported("fused", 256), row("fused", 4096, status="incorrect", time_us=1.0)]
    canvas = draw(tmp_path, D_FIG1, rows)
    fused = lines(canvas)["fused"]
    assert fused[np.isnan(fused[:, 1]), 0].tolist() == [256, 1024, 4096]
    assert "naive" not in lines(canvas)


@pytest.mark.parametrize("y", ["effective_gbps", "fraction_of_roof"])
def test_a_loss_is_drawn_by_its_own_bytes_and_roof(y: str, tmp_path: Path) -> None:
    rows = loss({"ce_auto": 0.25, "ce_torch": 1.0, "read": 0.24})
    query = Query(8192, "bfloat16", operation="cross_entropy")
    canvas = draw(tmp_path, LineFigure("loss", "The loss", query, y), rows)
    drawn = lines(canvas)["ce_auto"][:, 1]
    if y == "fraction_of_roof":
        assert drawn == pytest.approx(0.24 / 0.25, abs=3e-4)
        return
    assert "effective bandwidth, GB/s: MN elements / time (higher is better)" in words(canvas)
    widths = np.array([n for _, n in LOSS_SHAPES])
    moved, times = 8192 * widths * 2 + 12 * 8192, 0.25 * 8192 * widths * 2 / 1e6
    assert drawn == pytest.approx(moved / times / 1e3)
    assert "MN fits in L2 (50 MiB)" not in words(canvas), "no width does"


def test_a_point_above_the_roof_is_crossed_out_and_not_in_the_line(tmp_path: Path) -> None:
    rows = [row(k, n) for k in ("copy", "torch") for n in NARROW]
    assert "crossed out" not in words(draw(tmp_path / "1", D_FIG1, rows))
    above = 0.8 * (rows[0].time_us or 0)
    rows += [row("fused", 256, time_us=above), *(row("fused", n) for n in NARROW[1:])]
    canvas = draw(tmp_path / "2", D_FIG1, rows)
    drawn = lines(canvas)
    assert np.isnan(drawn["fused"][0, 1])
    assert np.isfinite(drawn["fused"][1:, 1]).all()
    [above] = [one for one in canvas.axes[0].get_lines() if one.get_label() == "_above roof"]
    assert list(above.get_xdata()) == [256]
    assert "crossed out" in words(canvas)


def test_a_card_without_datasheet_gives_the_figure_that_another_gives(tmp_path: Path) -> None:
    rows = [row(k, n, gpu="Some Card") for k in ("torch", "fused_row", "copy") for n in PAPER]
    drawn = words(draw(tmp_path, D_FIG1, rows))
    assert "copy roof" in drawn
    assert "datasheet" not in drawn
    assert "fits in L2" not in drawn


def test_the_interval_stands_on_every_point(tmp_path: Path) -> None:
    rows = [row("torch", n, time_us=10.0) for n in (256, 512)]
    value = 2 * 4096 * 256 * 4 / 10.0 / 1e3
    for figure, ends in ((D_FIG1, (value / 1.01, value / 0.99)), (A_FIG2, (9.9, 10.1))):
        bars, *_ = draw(tmp_path / figure.id, figure, rows).axes[0].collections
        drawn: np.ndarray = np.asarray(bars.get_paths()[0].vertices)
        assert sorted(drawn[:, 1]) == pytest.approx(ends)


@pytest.mark.parametrize(
    ("figure", "place"), [(C_FIG3, {"rows": 512}), (E_FIG1, {"dtype": "bfloat16"})]
)
def test_published_numbers_stand_only_beside_their_own_shape_and_dtype(
    figure: LineFigure, place: dict[str, object], tmp_path: Path
) -> None:
    rows = [row(k, n, **place) for k in ("torch", "fused_row", "copy") for n in NARROW]
    canvas = draw(tmp_path, figure, rows)
    drawn = {label for panel in range(len(canvas.axes)) for label in lines(canvas, panel)}
    assert not [label for label in drawn if ": " in label or "(E)" in label]
    assert "printed" not in words(canvas)


def test_what_c_published_is_of_hybrid_as_c_ran_it(tmp_path: Path) -> None:
    place = {"rows": 8192, "dtype": "float16"}
    ours = [row(k, n, **place) for k in ("torch", "hybrid", "hybrid_whole") for n in (8192, 32000)]
    name = "Sharma (C): hybrid_whole"
    canvas = draw(tmp_path / "ours", C_FIG3, ours)
    assert lines(canvas)[name].tolist() == [[32000, 863.02]]
    assert set(lines(canvas)[f"{name} 870–900"][:, 1]) <= {870, 900}


def test_the_recipe_for_a_figure_is_one_entry_that_draws(tmp_path: Path) -> None:
    recipe = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")
    section = recipe.split("## A figure\n")[1].split("\n## ")[0]
    source = (ROOT / "analysis" / "figures" / "specs.py").read_text(encoding="utf-8")
    module: dict[str, object] = {"__name__": "specs"}
    entry = section.split("```python\n")[1].split("```")[0]
    exec(compile(source + entry, "specs.py", "exec"), module)
    figure = module["WIDE_ROWS"]
    assert isinstance(figure, LineFigure)
    rows = [row(k, n, rows=64, dtype="float16") for k in ("torch", "online", "copy")
            for n in (8192, 32768, 131072)]  # fmt: skip
    assert {"torch", "online", "copy roof"} <= lines(draw(tmp_path, figure, rows)).keys()
