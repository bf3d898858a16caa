"""Speedup over torch.softmax against N at M = 4096, float32."""

from __future__ import annotations

from matplotlib.axes import Axes

from analysis.estimate import comparable
from analysis.figure import Figure
from analysis.figures.a_fig2 import WIDTHS
from analysis.figures.speedup import QUIET, speedup
from analysis.margin import write_names
from analysis.selection import Query, Selection


def draw(ax: Axes, view: Selection) -> None:
    """Ratios over torch.softmax, with A's own, D's ≈4× and E's "up to 3×"."""
    write_names(ax, speedup(ax, view, "torch", ("torch",)))


SPEEDUP_TORCH = Figure(
    "speedup_torch",
    "Speedup over torch.softmax",
    Query(4096, "float32", sizes=WIDTHS),
    draw,
    note=f"open, blue dots: as A, D and E printed them, on other cards; {QUIET}",
    caption="Time of torch.softmax over each variant's, with intervals, beside the ratios of their "
    "modelled traffic, the ratios of A's published times, and what D and E claim.",
    allowed=comparable("torch"),
    besides="torch among them",
)
