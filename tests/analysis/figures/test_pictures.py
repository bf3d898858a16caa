"""All pictures in one order, the same bytes whenever they are drawn, of what the rows contain."""

import itertools
from pathlib import Path

import pytest

from analysis.__main__ import main
from analysis.figures import FIGURES, pictures
from analysis.figures.lines import LineFigure
from analysis.figures.style import style_of
from analysis.load import REFERENCE, read_inputs
from analysis.selection import Query
from tests.analysis.conftest import Refused
from tests.analysis.drawing import inputs_of, lines, overhang, rendered
from tests.analysis.plausible import PAPER, row, write
from tests.conftest import ROOT

SOURCED = ["a_fig1", "a_fig2", "b_fig1", "c_fig1", "c_fig2", "c_fig3", "d_fig1", "e_fig1"]
OPERATIONS = ("softmax_backward", "cross_entropy", "cross_entropy_backward", "cross_entropy_grad")


@pytest.mark.parametrize("name", ["h200", "h200_backward", "h200_heads", "h200_limits"])
def test_recorded_pictures_fit_and_no_two_of_their_lines_look_alike(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    inputs = read_inputs(REFERENCE / name, None, "figures")
    together, shown = set(), [*FIGURES]
    shown += [LineFigure(o, o, Query(4096, "float32", operation=o)) for o in OPERATIONS]
    for figure, page in pictures(inputs, shown):
        canvas = rendered(page)
        assert len(page.small) <= 3
        assert overhang(canvas) == [], figure.id
        drawn = {name for i in range(len(canvas.axes)) for name in lines(canvas, i)}
        names = {name.split(" ")[0] for name in drawn if "roof" not in name}
        together |= set(itertools.combinations(sorted(names & {*inputs.frame["kernel"]}), 2))
    assert together
    for first, second in (map(style_of, pair) for pair in together):
        assert first.marker != second.marker, "colours may look alike to some"
        assert first.color != second.color


def test_a_picture_is_the_same_bytes_whatever_order_the_rows_have(tmp_path: Path) -> None:
    rows = [row(k, n) for k in ("naive", "torch", "auto", "fused_row", "copy") for n in PAPER]
    both = [inputs_of(tmp_path / str(i), some) for i, some in enumerate((rows, rows[::-1]))]
    for one, other in zip(*map(pictures, both), strict=True):
        first, second = one[1].files(tmp_path / "1"), other[1].files(tmp_path / "2")
        for path, again in zip(first, second, strict=True):
            assert path.read_bytes() == again.read_bytes()
            assert b"NVIDIA H200" in path.read_bytes()


def test_the_command_draws_what_it_can_and_names_the_rest(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], refused: Refused
) -> None:
    write(tmp_path / "rows", [row(k, n) for k in ("torch", "copy") for n in (256, 1024)])
    needs = refused("figures", "--rows", "rows", "--only", "a_fig1")
    assert "a_fig1 needs rows and traces" in needs
    assert main(["figures", "--rows", "rows", "--only", "d_fig1,a_fig1"]) == 0
    printed = capsys.readouterr()
    assert printed.out.splitlines() == ["4 rows of NVIDIA H200, read from rows"] + [
        f"rows/figures/d_fig1-nvidia-h200.{kind}" for kind in ("svg", "png")
    ]
    assert printed.err.startswith("skipped: a_fig1 needs")
    assert [figure.id for figure in FIGURES][: len(SOURCED)] == SOURCED
    assert all(figure.needs.startswith(f"{figure.id} needs ") for figure in FIGURES)
    assert all(figure.caption.endswith(".") for figure in FIGURES)
