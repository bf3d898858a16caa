"""`limits` and `limits_ratio`: every point where it belongs, losses and flags in plain sight."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from analysis.figures.limits import LIMITS_FIGURES
from analysis.figures.page import Canvas, Figure
from experiments.data.rows import Row
from tests.analysis.drawing import draw, lines, overhang, pages, rendered, words
from tests.analysis.limit_rows import DTYPES, FEWER, QUACK, limits
from tests.analysis.loss_rows import loss
from tests.analysis.plausible import paper, row

HEADLINE, LIMITS, LIMITS_RATIO = LIMITS_FIGURES


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
    dtypes = [f"-{dtype}" for dtype in DTYPES] if figure is LIMITS else [""]
    assert [p.name for p in made] == [
        f"{figure.id}-nvidia-h200-{timer}{held_out}{dtype}"
        for timer in ("events", "graph") for held_out in ("", "-held_out") for dtype in dtypes
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


def test_axes_hold_every_ratio_and_every_share_of_ours(tmp_path: Path) -> None:
    canvas = draw(tmp_path, LIMITS, one(100.0, 310.0, copy=20.0))
    shares, ratios = canvas.axes
    assert shares.get_xlim()[0] < 20
    assert ratios.get_xlim()[1] > 3.1
    assert draw(tmp_path / "far", LIMITS_RATIO, one(100.0, 1e4)).axes[0].get_ylim()[1] > 100


def test_the_headline_is_autos_bandwidth_beside_the_peers_and_the_copys(tmp_path: Path) -> None:
    rows = limits(QUACK, dtypes=("float32", "bfloat16"), timers=("graph", "events"))
    canvas = draw(tmp_path, HEADLINE, rows)
    drawn = lines(canvas)
    assert drawn["auto"][:, 0].tolist() == sorted(n for _, n in QUACK)
    own = sorted(r.time_us for r in rows if (r.kernel, r.cols, r.dtype, r.timer)
                 == ("auto", 1024, "bfloat16", "events"))  # fmt: skip
    place = drawn["auto"][:, 0].tolist().index(1024)
    assert drawn["auto"][place, 1] == pytest.approx(4 * 32768 * 1024 / own[1] / 1e3, rel=1e-3)
    assert {"copy roof", "torch", "quack"} <= drawn.keys()
    assert np.isnan(drawn["liger"][-1, 1])  # it refuses such rows
    assert {"liger, to 64K", "auto"} <= set(words(canvas).splitlines())
    assert overhang(canvas) == []
    assert pages(tmp_path / "paper", HEADLINE, paper()) == []


def test_another_operation_has_pages_of_its_own_against_its_own_roof(tmp_path: Path) -> None:
    times = {"ce_auto": 0.25, "ce_torch": 1.0, "ce_quack": 0.26, "read": 0.24}
    rows = [*loss(times), *one(100.0, 120.0)]
    softmax, other = pages(tmp_path / "both", LIMITS, rows)
    assert softmax.name == "limits-nvidia-h200-events-float32"
    assert other.name == "limits-cross-entropy-nvidia-h200-events-bfloat16"
    assert other.title == "At the limit: the read roof and the best peer of cross_entropy"
    canvas = rendered(other)
    assert "share of the read roof, % (higher is better)" in words(canvas)
    wide = draw(tmp_path / "wide", LIMITS, loss(times, [(8192, 256000)])).axes[0]
    assert [tick.get_text() for tick in wide.get_yticklabels()] == ["8,192 × 256000"]
    assert overhang(canvas) == []
    assert [p.name for p in pages(tmp_path / "ratio", LIMITS_RATIO, rows)][1:] == [
        "limits_ratio-cross-entropy-nvidia-h200-events"
    ]
