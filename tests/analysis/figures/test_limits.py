"""`limits` and `headline`: every point where it belongs, losses and flags in plain sight."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from analysis.figures.limits import LIMITS_FIGURES
from experiments.data.rows import Row
from tests.analysis.drawing import draw, lines, overhang, pages, rendered, words
from tests.analysis.limit_rows import DTYPES, FEWER, QUACK, limits
from tests.analysis.loss_rows import loss
from tests.analysis.plausible import paper, row

HEADLINE, LIMITS = LIMITS_FIGURES


def one(own: float, peer: float, copy: float = 95.0) -> list[Row]:
    """A point: auto, torch and a copy, three rounds each."""
    times = {"auto": own, "torch": peer, "copy": copy}
    return [row(k, 4096, time_us=t, round=i) for k, t in times.items() for i in range(3)]


def test_each_timer_and_dtype_has_a_picture_that_fits_its_page(tmp_path: Path) -> None:
    made = pages(tmp_path / "limits", LIMITS, limits([*FEWER, (2670, 50257), (883, 151936)]))
    assert {p.name for p in made} == {
        f"limits-nvidia-h200-{timer}{held_out}-{dtype}"
        for timer in ("events", "graph") for held_out in ("", "-held_out") for dtype in DTYPES
    }  # fmt: skip
    for page in made:
        assert len(page.small) <= 3
        assert overhang(rendered(page)) == []
    assert pages(tmp_path / "paper", LIMITS, paper()) == []


def test_above_the_roof_is_drawn_open_and_short_is_shaded(tmp_path: Path) -> None:
    canvas = draw(tmp_path / "above", LIMITS, one(100.0, 120.0, copy=130.0))
    faces = [line.get_markerfacecolor() for line in canvas.axes[1].get_lines()]
    assert faces.count("white") == 1
    assert "open: above roof, not a win" in words(canvas)
    assert len(draw(tmp_path / "short", LIMITS, one(10.0, 12.0, 9.5)).axes[0].patches) == 1
    without_copy = [r for r in one(100.0, 120.0) if r.operation == "softmax"]
    assert pages(tmp_path / "without", LIMITS, without_copy) == []


def test_axes_hold_every_ratio_and_every_share_of_ours(tmp_path: Path) -> None:
    shares, ratios = draw(tmp_path, LIMITS, one(100.0, 310.0, copy=20.0)).axes
    assert shares.get_xlim()[0] < 20
    assert ratios.get_xlim()[1] > 3.1


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
    rows = [*loss({"ce_auto": 0.25, "ce_torch": 1.0, "ce_quack": 0.26, "read": 0.24})]
    softmax, other = pages(tmp_path / "both", LIMITS, rows + one(100.0, 120.0))
    assert softmax.name == "limits-nvidia-h200-events-float32"
    assert other.name == "limits-cross-entropy-nvidia-h200-events-bfloat16"
    assert other.title == "At the limit: the read roof and the best peer of cross_entropy"
    assert "share of the read roof, % (higher is better)" in words(rendered(other))
