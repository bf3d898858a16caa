"""What is on the axes, asked of the axes."""

from __future__ import annotations

from pathlib import Path

import matplotlib
import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas

from analysis.figure import Figure, draw_files, render
from analysis.figures import FIGURES
from analysis.figures.a_fig2 import A_FIG2, PUBLISHED, WIDTHS
from analysis.figures.d_fig1 import D_FIG1
from analysis.load import load
from analysis.palette import LOOKS
from analysis.style import size_label, theme
from analysis.view import view_of
from experiments.rows import Row
from tests.analysis.plausible import PAPER, interpreted, paper, row, unsupported, write

NARROW = (256, 512, 1024, 2048, 4096, 8192)


def draw(tmp_path: Path, figure: Figure, rows: list[Row]) -> Canvas:
    view = view_of(load(write(tmp_path, rows)), rows[0].gpu, figure.wanted)
    assert view is not None
    with matplotlib.rc_context(theme()):
        return render(figure, view)


def lines(canvas: Canvas) -> dict[str, np.ndarray]:
    """Label to an array of (x, y), of all that is drawn with a label."""
    ax: Axes = canvas.axes[0]
    drawn = [line for line in ax.get_lines() if not str(line.get_label()).startswith("_")]
    return {str(line.get_label()): np.asarray(line.get_xydata(), dtype=float) for line in drawn}


def words(canvas: Canvas) -> str:
    texts = [*canvas.texts, *canvas.axes[0].texts]
    return "\n".join(text.get_text() for text in texts)


def test_figures_are_the_same_bytes_when_drawn_twice(tmp_path: Path) -> None:
    frame = load(write(tmp_path / "rows", paper()))
    for figure in FIGURES:
        first = draw_files(figure, frame, tmp_path / "first")
        second = draw_files(figure, frame.sample(frac=1, random_state=1), tmp_path / "second")
        assert {p.suffix for p in first} == {".svg", ".png"}
        for one, other in zip(first, second, strict=True):
            assert one.name == other.name
            assert one.read_bytes() == other.read_bytes(), one.name


def test_the_line_breaks_where_a_variant_is_unsupported(tmp_path: Path) -> None:
    fused = lines(draw(tmp_path, A_FIG2, paper()))["fused"]
    assert fused[:, 0].tolist() == list(PAPER)
    assert np.isfinite(fused[:, 1]).tolist() == [True] * 4 + [False] * 2


def test_the_line_breaks_where_a_point_was_never_recorded_or_was_wrong(tmp_path: Path) -> None:
    rows = [row("torch", n) for n in NARROW]
    rows += [row("fused", n) for n in NARROW if n != 1024 and n != 4096]
    rows += [row("fused", 4096, status="incorrect", time_us=1.0)]
    fused = lines(draw(tmp_path, D_FIG1, rows))["fused"]
    assert fused[np.isnan(fused[:, 1]), 0].tolist() == [1024, 4096]


def test_interpreter_rows_never_enter_a_speed_figure(tmp_path: Path) -> None:
    rows = [row("torch", n, gpu="A CPU", device="cpu", timer="host") for n in NARROW]
    rows += [interpreted("online", n) for n in NARROW]
    rows += [row("fused", n, gpu="A CPU", device="cpu", backend="interpreter") for n in NARROW]
    for figure in FIGURES:
        drawn = set(lines(draw(tmp_path, figure, rows)))
        assert "torch" in drawn
        assert not {"online", "fused"} & drawn


def test_published_times_of_source_a_are_drawn_as_printed(tmp_path: Path) -> None:
    drawn = lines(draw(tmp_path, A_FIG2, paper()))
    for kernel, times in PUBLISHED.kernels.items():
        expected = np.array([WIDTHS, times], dtype=float).T
        assert drawn[f"{kernel}, as published"] == pytest.approx(expected)


def test_published_times_stand_only_beside_their_own_shape(tmp_path: Path) -> None:
    drawn = lines(draw(tmp_path, A_FIG2, [row("torch", n, rows=512) for n in NARROW]))
    assert not [label for label in drawn if "published" in label]


def test_a_point_above_the_roof_is_crossed_out_and_not_in_the_line(tmp_path: Path) -> None:
    rows = [row(k, n) for k in ("copy", "torch") for n in NARROW]
    rows += [row("fused", 256, time_us=1.0), *(row("fused", n) for n in NARROW[1:])]
    canvas = draw(tmp_path, D_FIG1, rows)
    drawn = lines(canvas)
    assert np.isnan(drawn["fused"][0, 1])
    assert np.isfinite(drawn["fused"][1:, 1]).all()
    assert drawn["above roof"][:, 0].tolist() == [256]
    assert "crossed out" in words(canvas)
    assert "crossed out" not in words(draw(tmp_path, D_FIG1, paper()))


def test_a_variant_keeps_its_colour_and_marker_whichever_others_are_there(tmp_path: Path) -> None:
    seen: dict[str, set[tuple[str, str]]] = {}
    for kernels in (("online", "my_kernel"), ("my_kernel", "torch"), (*LOOKS, "my_kernel")):
        ax = draw(tmp_path, D_FIG1, [row(k, n) for k in kernels for n in NARROW]).axes[0]
        for line in ax.get_lines():
            look = (str(line.get_color()), str(line.get_marker()))
            seen.setdefault(str(line.get_label()), set()).add(look)
    assert seen["online"] == {(LOOKS["online"].color, LOOKS["online"].marker)}
    assert len(seen["my_kernel"]) == len(seen["torch"]) == 1


def test_axes_title_and_small_print_tell_what_was_measured_how(tmp_path: Path) -> None:
    canvas = draw(tmp_path, D_FIG1, paper(NARROW))
    ax = canvas.axes[0]
    assert ax.get_ylim()[0] == 0
    assert ax.get_xscale() == "log"
    ticks = [label.get_text() for label in ax.get_xticklabels()]
    assert ticks == ["256", "512", "1K", "2K", "4K", "8K"]
    for told in (
        "NVIDIA H200",
        "float32",
        "M = 4096",
        "events, cold",
        "torch 2.13.0",
        "0123456789ab",
    ):
        assert told in words(canvas)


def test_roof_datasheet_and_l2_are_drawn_for_a_known_card_only(tmp_path: Path) -> None:
    canvas = draw(tmp_path, D_FIG1, paper(NARROW))
    drawn = lines(canvas)
    assert set(drawn["datasheet peak"][:, 1]) == {4800.0}
    fits = [p for p in canvas.axes[0].patches if p.get_label() == "fits in L2"]
    edge = fits[0].get_extents().transformed(canvas.axes[0].transData.inverted()).x1
    assert edge == pytest.approx(60 * 2**20 / (2 * 4096 * 4))
    unknown = [row(k, n, gpu="Some Card") for k in ("copy", "torch") for n in NARROW]
    other = draw(tmp_path, D_FIG1, unknown)
    assert "datasheet peak" not in lines(other)
    assert not other.axes[0].patches
    assert np.isfinite(lines(other)["copy roof"]).all()


def test_the_roof_is_the_faster_copy_at_each_width(tmp_path: Path) -> None:
    rows = [row("torch", n) for n in (256, 512)]
    rows += [row("copy", 256, time_us=10.0), row("copy_triton", 256, time_us=8.0)]
    rows += [row("copy", 512, time_us=10.0), row("copy_triton", 512, time_us=16.0)]
    roof = lines(draw(tmp_path, A_FIG2, rows))["copy roof"]
    assert roof[:, 1].tolist() == [8.0, 10.0]


def test_the_interval_stands_on_every_point(tmp_path: Path) -> None:
    canvas = draw(tmp_path, D_FIG1, [row("torch", n, time_us=10.0) for n in (256, 512)])
    [bars] = canvas.axes[0].collections
    low, high = bars.get_paths()[0].vertices[:, 1]  # type: ignore[attr-defined]
    value = 2 * 4096 * 256 * 4 / 10.0 / 1e3
    assert (low, high) == pytest.approx((value / 1.01, value / 0.99))


def test_each_card_has_files_of_its_own(tmp_path: Path) -> None:
    rows = [row("torch", n, gpu=gpu) for gpu in ("NVIDIA H200", "NVIDIA L4") for n in NARROW]
    made = draw_files(D_FIG1, load(write(tmp_path, rows)), tmp_path / "out")
    names = [path.name for path in made if path.suffix == ".svg"]
    assert names == ["d_fig1-nvidia-h200.svg", "d_fig1-nvidia-l4.svg"]


def test_the_files_themselves_tell_commit_and_rows(tmp_path: Path) -> None:
    made = draw_files(D_FIG1, load(write(tmp_path, paper(NARROW))), tmp_path)
    for path in made:
        assert b"commit 0123456789ab" in path.read_bytes().replace(b"\xc2\xb7", b"")


def test_a_variant_that_ran_nowhere_is_not_drawn(tmp_path: Path) -> None:
    rows = [row("torch", n) for n in NARROW] + [unsupported("fused", n) for n in NARROW]
    assert "fused" not in lines(draw(tmp_path, D_FIG1, rows))


@pytest.mark.parametrize(
    ("size", "label"), [(256, "256"), (1024, "1K"), (2**18, "256K"), (781, "781")]
)
def test_sizes_are_written_as_the_field_writes_them(size: int, label: str) -> None:
    assert size_label(size) == label
