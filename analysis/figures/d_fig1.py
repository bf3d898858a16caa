"""D-fig1: bandwidth against N = 256 … 12672 at M = 4096, float32 (Triton's tutorial 02)."""

from __future__ import annotations

from matplotlib.axes import Axes

from analysis import levels
from analysis.figure import Figure
from analysis.figures.bandwidth import bandwidth
from analysis.margin import write_names
from analysis.selection import Query, Selection

WIDTHS = range(256, 12673)


def draw(ax: Axes, view: Selection) -> None:
    """GB/s from 0. The tutorial's N is linear; powers of two show the narrow rows as well."""
    names = bandwidth(ax, view) + levels.bandwidths(ax, view, "A", "D")
    write_names(ax, levels.reachable(ax, names))


D_FIG1 = Figure(
    "d_fig1",
    "Softmax bandwidth by row width",
    Query(4096, "float32", sizes=WIDTHS, without=("hybrid_whole", "hybrid_capped")),
    draw,
    note="dotted: as A and D printed them, cards unknown",
    caption="D's figure, which is Triton's tutorial 02: bandwidth against row width at M = 4096, "
    "float32, beside the peaks that A states and the 1400+ GB/s that D sees sustained.",
)
