"""`limits` and `headline`: every point where it belongs, losses and flags in plain sight."""

from pathlib import Path

import numpy as np
import pytest

from analysis.figures.limits import HEADLINE, LIMITS
from analysis.load import read_inputs
from tests.analysis.drawing import draw, lines, overhang, pages, rendered, words
from tests.analysis.plausible import paper, point
from tests.conftest import REFERENCE


def test_every_share_and_ratio_is_drawn_and_above_the_roof_it_is_hollow(tmp_path: Path) -> None:
    own, peer = "logprob_entropy_backward_auto", "logprob_entropy_backward_compiled"  # the longest
    for far in (3.1, 12.0):
        rows = point(**{own: 100.0, peer: 100 * far}, copy=20.0)
        canvas = draw(tmp_path / str(far), LIMITS, rows)
        assert lines(canvas)[own].tolist() == [[pytest.approx(100), pytest.approx(0.2)]]
        assert lines(canvas, 1)[peer][0, 1] == pytest.approx(far)
        assert canvas.axes[1].get_ylim()[1] > far
        assert (0.9 in canvas.axes[1].get_yticks()) is (far < 8)  # or labels would overlap
        assert overhang(canvas) == []
    for copy, hollow in ((95.0, False), (120.0, True)):
        rows = point(auto=100.0, torch=120.0, copy=copy)
        canvas = draw(tmp_path / str(copy), LIMITS, rows)
        faces = [one.get_markerfacecolor() for ax in canvas.axes for one in ax.get_lines()]
        assert faces.count("white") == 2 * hollow
    assert pages(tmp_path / "without", LIMITS, point(auto=100.0, torch=120.0)) == []
    assert pages(tmp_path / "paper", LIMITS, paper()) == pages(tmp_path, HEADLINE, paper()) == []


def test_the_headline_is_autos_bandwidth_beside_the_peers_and_the_copys() -> None:
    # by two timers, and also at widths that nobody tuned for
    recorded = read_inputs(REFERENCE / "h200_limits", None, "figures")
    [page] = HEADLINE.pages(recorded)
    canvas = rendered(page)
    drawn, widths = lines(canvas), [256 * 2**k for k in range(11)]
    assert drawn["auto"][:, 0].tolist() == widths
    place = "rows == 32768 and cols == 512 and dtype == 'bfloat16' and timer == 'events'"
    own = recorded.frame.query(f"kernel == 'auto' and {place}")["time_us"]
    rate = 4 * 32768 * 512 / drawn["auto"][widths.index(512), 1] / 1e3
    assert rate == pytest.approx(sorted(own)[(len(own) - 1) // 2])  # the middle visit by time
    assert {"copy roof", "torch", "quack"} <= drawn.keys()
    assert np.isnan(drawn["liger"][-1, 1])  # it refuses such rows
    assert {"liger", "auto"} <= set(words(canvas).splitlines())
    assert overhang(canvas) == []
