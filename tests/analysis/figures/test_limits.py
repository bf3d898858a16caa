"""`limits` and `headline`: every point where it belongs, losses and flags in plain sight."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from analysis.figures.limits import HEADLINE, LIMITS
from experiments.data.rows import Row
from tests.analysis.drawing import draw, lines, overhang, pages, rendered, words
from tests.analysis.limit_rows import FEWER, QUACK, limits
from tests.analysis.loss_rows import loss
from tests.analysis.plausible import paper, row


def one(own: float, peer: float, copy: float = 95.0) -> list[Row]:
    """A point: auto, torch and a copy, three rounds each."""
    times = {"auto": own, "torch": peer, "copy": copy}
    return [row(k, 4096, time_us=t, round=i) for k, t in times.items() for i in range(3)]


def test_each_protocol_has_a_picture_that_fits_its_page(tmp_path: Path) -> None:
    made = pages(tmp_path / "limits", LIMITS, limits([*FEWER, (2670, 50257), (883, 151936)]))
    timers = [f"limits-nvidia-h200-{timer}" for timer in ("events", "graph")]
    assert {p.name for p in made} == {*timers, *(f"{name}-held_out" for name in timers)}
    for page in made:
        assert len(page.small) <= 3
        assert overhang(rendered(page)) == []
    assert pages(tmp_path / "paper", LIMITS, paper()) == []


def test_every_share_and_ratio_is_drawn_and_above_the_roof_it_is_hollow(tmp_path: Path) -> None:
    canvas = draw(tmp_path / "far", LIMITS, one(100.0, 310.0, copy=20.0))
    assert lines(canvas)["auto"].tolist() == [[pytest.approx(100), pytest.approx(0.2)]]
    assert lines(canvas, 1)["torch"][0, 1] == pytest.approx(3.1)
    assert canvas.axes[1].get_ylim()[1] > 3.1
    for copy, hollow in ((95.0, False), (120.0, True)):
        canvas = draw(tmp_path / str(copy), LIMITS, one(100.0, 120.0, copy))
        faces = [one.get_markerfacecolor() for ax in canvas.axes for one in ax.get_lines()]
        assert faces.count("white") == 2 * hollow
    without_copy = [r for r in one(100.0, 120.0) if r.operation == "softmax"]
    assert pages(tmp_path / "without", LIMITS, without_copy) == []


def test_the_headline_is_autos_bandwidth_beside_the_peers_and_the_copys(tmp_path: Path) -> None:
    rows = limits(QUACK, dtypes=("float32", "bfloat16"), timers=("graph", "events"))
    canvas = draw(tmp_path, HEADLINE, rows)
    drawn = lines(canvas)
    assert drawn["auto"][:, 0].tolist() == sorted(n for _, n in QUACK)
    place = ("auto", 1024, "bfloat16", "events")
    own = sorted(r.time_us or 0 for r in rows if (r.kernel, r.cols, r.dtype, r.timer) == place)
    at = drawn["auto"][:, 0].tolist().index(1024)
    assert drawn["auto"][at, 1] == pytest.approx(4 * 32768 * 1024 / own[1] / 1e3)
    assert {"copy roof", "torch", "quack"} <= drawn.keys()
    assert np.isnan(drawn["liger"][-1, 1])  # it refuses such rows
    assert {"liger", "auto"} <= set(words(canvas).splitlines())
    assert overhang(canvas) == []
    assert pages(tmp_path / "paper", HEADLINE, paper()) == []


def test_another_operation_has_pages_of_its_own_against_its_own_roof(tmp_path: Path) -> None:
    rows = [*loss({"ce_auto": 0.25, "ce_torch": 1.0, "ce_quack": 0.26, "read": 0.24})]
    softmax, other = pages(tmp_path / "both", LIMITS, rows + one(100.0, 120.0))
    assert softmax.name == "limits-nvidia-h200-events"
    assert other.name == "limits-cross-entropy-nvidia-h200-events"
    assert other.title == "At the limit: the read roof and the best peer of cross_entropy"
    assert "share of the read roof (higher is better)" in words(rendered(other))
