"""D-fig1: bandwidth against N = 256 … 12672 at M = 4096, float32 (Triton's tutorial 02)."""

from __future__ import annotations

from matplotlib.axes import Axes

from analysis.figure import Figure
from analysis.lines import lines
from analysis.margin import write_names
from analysis.roofs import copy_roof, datasheet_peak, shade_l2
from analysis.style import value_axis
from analysis.view import View, Wanted

WIDTHS = range(256, 12673)


def draw(ax: Axes, view: View) -> None:
    """GB/s from 0. The tutorial's N is linear; powers of two show the narrow rows as well."""
    names = lines(ax, view, y="effective_gbps") + copy_roof(ax, view, y="effective_gbps")
    names += datasheet_peak(ax, view)
    ax.set_ylim(0, None)
    shade_l2(ax, view)
    value_axis(ax, "effective bandwidth, GB/s = 2MN bytes / time")
    write_names(ax, names)


D_FIG1 = Figure(
    "d_fig1", "Softmax bandwidth by row width", Wanted(4096, "float32", sizes=WIDTHS), draw
)
