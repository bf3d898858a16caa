"""`limits` and `limits_ratio`: every point where it belongs, losses and flags in plain sight."""

from __future__ import annotations

from pathlib import Path

import matplotlib
import pytest
from matplotlib.axes import Axes

from analysis.figures.limits import LIMITS, LIMITS_RATIO, RATIOS, SHARES, bytes_label
from analysis.figures.page import Canvas, Figure
from analysis.figures.style import theme
from experiments.data.rows import Row
from tests.analysis.drawing import draw, plates, rendered, words
from tests.analysis.limits.rows import FEWER, limits
from tests.analysis.plausible import PAPER, paper, row

BOTH = pytest.mark.parametrize("figure", [LIMITS, LIMITS_RATIO], ids=lambda f: str(f.id))


def one(own: float, peer: float, copy: float = 95.0, **changes: object) -> list[Row]:
    """A point: auto, torch and a copy, three rounds each."""
    times = {"auto": own, "torch": peer, "copy": copy}
    return [row(k, 4096, time_us=t, round=i, **changes) for k, t in times.items() for i in range(3)]


def dots(sheet: Canvas, panel: int, face: str | None = None) -> list[tuple[float, float]]:
    """Where markers stand on a panel, of one face's colour if asked."""
    ax: Axes = sheet.axes[panel]
    found = [line for line in ax.get_lines() if line.get_marker() not in ("", "None", None)]
    return [
        (float(line.get_xdata()[0]), float(line.get_ydata()[0]))  # type: ignore[index]
        for line in found
        if face is None or line.get_markerfacecolor() == face
    ]


@BOTH
def test_each_timer_has_a_picture_of_its_own(figure: Figure, tmp_path: Path) -> None:
    made = plates(tmp_path, figure, limits(FEWER))
    assert [p.name for p in made] == [f"{figure.id}-nvidia-h200-{t}" for t in ("events", "graph")]
    for plate in made:
        assert len(plate.small) <= 3
        assert "commit 0123456789ab" in " ".join(plate.small)
        assert " mean" in plate.subtitle


@BOTH
def test_every_text_stays_on_the_canvas(figure: Figure, tmp_path: Path) -> None:
    for plate in plates(tmp_path, figure, limits(FEWER)):
        sheet = rendered(plate)
        with matplotlib.rc_context(theme()):
            for text in [*sheet.texts, *(text for ax in sheet.axes for text in ax.texts)]:
                seen = text.get_window_extent()
                assert seen.x0 >= -1, text.get_text()
                assert seen.x1 <= sheet.bbox.width + 1, text.get_text()


@BOTH
def test_rows_without_auto_or_peers_are_told_what_is_missing(
    figure: Figure, tmp_path: Path
) -> None:
    assert plates(tmp_path, figure, paper()) == []
    assert figure.needs.startswith(f"{figure.id} needs timed rows of auto beside torch,")
    assert "make sweep EXPERIMENT=limits" in figure.needs


def test_a_pair_of_panels_a_dtype_with_every_shape(tmp_path: Path) -> None:
    [plate, _] = plates(tmp_path, LIMITS, limits(FEWER))
    sheet = rendered(plate)
    assert len(sheet.axes) == 6
    heights = {(m.row["rows"], m.row["cols"]): m.y for m in sheet.kept}
    assert set(heights) == set(FEWER)
    assert sorted(heights, key=lambda shape: -heights[shape]) == sorted(FEWER)
    told = words(sheet)
    assert all(text in told for text in ("1 ×", "64 ×", "4096 ×", "128K", "float16", "bfloat16"))


def test_share_and_ratio_stand_at_their_values(tmp_path: Path) -> None:
    sheet = draw(tmp_path, LIMITS, one(100.0, 120.0))
    shares = sorted(x for x, _ in dots(sheet, 0))
    assert shares == pytest.approx([100 * 95 / 120, 95.0])
    assert [x for x, _ in dots(sheet, 1)] == pytest.approx([1.2])


def test_a_defeat_is_left_of_one_in_the_shade(tmp_path: Path) -> None:
    sheet = draw(tmp_path, LIMITS, one(100.0, 96.0))
    [(x, _)] = dots(sheet, 1)
    assert x == pytest.approx(0.96)
    low, high = sheet.axes[1].get_xlim()
    assert low < x < 1 < high


def test_what_lies_beyond_the_axis_is_at_its_edge_with_a_number(tmp_path: Path) -> None:
    sheet = draw(tmp_path, LIMITS, one(100.0, 700.0, copy=30.0))
    assert [x for x, _ in dots(sheet, 1)] == [RATIOS[1]]
    assert [x for x, _ in dots(sheet, 0)] == [SHARES[0]]
    assert {"7", "30"} <= {t.get_text() for ax in sheet.axes for t in ax.texts}


def test_a_time_above_the_roof_is_drawn_open_and_said(tmp_path: Path) -> None:
    sheet = draw(tmp_path, LIMITS, one(100.0, 120.0, copy=130.0))
    assert len(dots(sheet, 1, face="white")) == 1
    assert "open: above roof, no win" in words(sheet)
    fair = draw(tmp_path / "2", LIMITS, one(100.0, 120.0))
    assert dots(fair, 1, face="white") == []
    assert "above roof" not in words(fair)


def test_points_below_25_us_are_shaded(tmp_path: Path) -> None:
    short, long = (
        draw(tmp_path / str(t), LIMITS, one(t, 1.2 * t, 0.95 * t)) for t in (10.0, 100.0)
    )
    assert len(short.axes[0].patches) == 1
    assert len(long.axes[0].patches) == 0


def test_without_a_copy_there_is_a_ratio_and_no_share(tmp_path: Path) -> None:
    rows = [r for r in one(100.0, 120.0) if r.operation == "softmax"]
    assert plates(tmp_path, LIMITS, rows) == []
    assert len(plates(tmp_path, LIMITS_RATIO, rows)) == 1


def test_a_ratio_stands_over_the_bytes_that_softmax_moves(tmp_path: Path) -> None:
    rows = [r for n in PAPER for r in one(100.0, 110.0)] + one(100.0, 900.0, rows=8)
    sheet = draw(tmp_path, LIMITS_RATIO, rows)
    found = {m.x: m.y for m in sheet.marks}
    assert found == {2 * 4096 * 4096 * 4: pytest.approx(1.1), 2 * 8 * 4096 * 4: 1.5}


def test_bytes_are_told_in_the_units_of_a_datasheet() -> None:
    assert [bytes_label(v) for v in (10, 1e5, 1e7, 2.56e8, 1e10)] == [
        "10 B", "100 KB", "10 MB", "256 MB", "10 GB"
    ]  # fmt: skip
