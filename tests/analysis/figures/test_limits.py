"""`limits` and `limits_ratio`: every point where it belongs, losses and flags in plain sight."""

from __future__ import annotations

from pathlib import Path

import pytest

from analysis.figures.limits import LIMITS, LIMITS_RATIO
from analysis.figures.page import Canvas, Figure
from experiments.data.rows import Row
from tests.analysis.drawing import draw, overhang, pages, rendered, words
from tests.analysis.limit_rows import FEWER, limits
from tests.analysis.plausible import paper, row


def one(own: float, peer: float, copy: float = 95.0, **changes: object) -> list[Row]:
    """A point: auto, torch and a copy, three rounds each."""
    times = {"auto": own, "torch": peer, "copy": copy}
    return [row(k, 4096, time_us=t, round=i, **changes) for k, t in times.items() for i in range(3)]


def dots(canvas: Canvas, panel: int, face: str | None = None) -> list[float]:
    """How far right markers stand on a panel, of one face's colour if asked."""
    found = [line for line in canvas.axes[panel].get_lines()
             if line.get_marker() not in ("", "None", None)]  # fmt: skip
    return [float(line.get_xdata()[0]) for line in found  # type: ignore[index]
            if face is None or line.get_markerfacecolor() == face]  # fmt: skip


@pytest.mark.parametrize("figure", [LIMITS, LIMITS_RATIO], ids=lambda f: str(f.id))
def test_each_timer_has_a_picture_that_fits_its_page(figure: Figure, tmp_path: Path) -> None:
    made = pages(tmp_path / "limits", figure, limits([*FEWER, (2670, 50257), (883, 151936)]))
    assert [p.name for p in made] == [
        f"{figure.id}-nvidia-h200-{timer}{held_out}"
        for timer in ("events", "graph") for held_out in ("", "-held_out")
    ]  # fmt: skip
    for page in made:
        assert len(page.small) <= 3
        assert overhang(rendered(page)) == []
    assert pages(tmp_path / "paper", figure, paper()) == []


def test_above_the_roof_is_drawn_open_and_short_is_shaded(tmp_path: Path) -> None:
    canvas = draw(tmp_path / "above", LIMITS, one(100.0, 120.0, copy=130.0))
    assert len(dots(canvas, 1, face="white")) == 1
    assert "open: above roof, not a win" in words(canvas)
    assert len(draw(tmp_path / "short", LIMITS, one(10.0, 12.0, 9.5)).axes[0].patches) == 1


def test_without_a_copy_there_is_a_ratio_and_no_share(tmp_path: Path) -> None:
    rows = [r for r in one(100.0, 120.0) if r.operation == "softmax"]
    assert pages(tmp_path, LIMITS, rows) == []
    assert len(pages(tmp_path, LIMITS_RATIO, rows)) == 1
