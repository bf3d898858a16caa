"""Speedup over naive softmax against N at M = 4096, float32."""

from __future__ import annotations

from matplotlib.axes import Axes

from analysis.estimate import comparable
from analysis.figure import Figure
from analysis.figures.a_fig2 import WIDTHS
from analysis.figures.speedup import QUIET, speedup
from analysis.margin import write_names
from analysis.selection import Query, Selection


def draw(ax: Axes, view: Selection) -> None:
    """Ratios over naive, with A's own, A's ≈4× over naive under JIT and D's 3–4×."""
    write_names(ax, speedup(ax, view, "naive", ("naive", "naive_script")))


SPEEDUP_NAIVE = Figure(
    "speedup_naive",
    "Speedup over naive softmax",
    Query(4096, "float32", sizes=WIDTHS),
    draw,
    note=f"open, band, blue dots: as A and D printed them, cards unknown; {QUIET}",
    caption="Time of naive softmax over each variant's, with intervals, beside the ratios of their "
    "modelled traffic, the ratios of A's published times, and what A and D claim.",
    allowed=comparable("naive"),
    besides="naive among them",
)
