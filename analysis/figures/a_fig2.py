"""A-fig2: time against N at M = 4096, float32, beside the times that source A published."""

from __future__ import annotations

from matplotlib.axes import Axes

from analysis.figure import Figure
from analysis.lines import lines, published
from analysis.margin import write_names
from analysis.published import series
from analysis.roofs import copy_roof, datasheet_floor, shade_l2
from analysis.selection import Query, Selection
from analysis.style import value_axis

PUBLISHED = series("a_fig2")
WIDTHS = PUBLISHED.sizes


def draw(ax: Axes, view: Selection) -> None:
    """Times in µs. They span three decades, so y is a logarithm: from 0, most would vanish."""
    ax.set_yscale("log")
    names = lines(ax, view, y="time_us") + copy_roof(ax, view, y="time_us")
    if view.exact:  # published numbers stand only beside the shape they were published for
        names += published(ax, WIDTHS, PUBLISHED.kernels, "A")
    ax.set_ylim(*ax.get_ylim())
    names += datasheet_floor(ax, view)
    shade_l2(ax, view, height=0.945)
    value_axis(ax, "time, µs (lower is better)")
    write_names(ax, names)


BESIDE = ("three_pass", "hybrid", "hybrid_whole", "hybrid_capped")  # B's and C's

A_FIG2 = Figure(
    "a_fig2",
    "Softmax time by row width",
    Query(4096, "float32", sizes=WIDTHS, without=BESIDE),
    draw,
    note="open, dashed: as A printed them, card unknown",
    caption="A's figure 2: time against row width at M = 4096, float32, beside the times that A "
    "prints; the shaded times are shorter than this card's memory takes to move 2MN.",
)
