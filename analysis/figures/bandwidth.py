"""GB/s over a size, as C, D and E draw it: lines, the copy roof, the datasheet's peak, L2."""

from __future__ import annotations

from matplotlib.axes import Axes

from analysis.lines import lines
from analysis.margin import Name
from analysis.roofs import copy_roof, datasheet_peak, shade_l2
from analysis.selection import Selection
from analysis.style import value_axis

LABEL = "effective bandwidth, GB/s = 2MN bytes / time"


def bandwidth(ax: Axes, view: Selection) -> list[Name]:
    """Draws it from 0 and returns what the margin is to name."""
    names = lines(ax, view, y="effective_gbps") + copy_roof(ax, view, y="effective_gbps")
    names += datasheet_peak(ax, view)
    ax.set_ylim(0, None)
    shade_l2(ax, view, height=0.87)  # below the peak, above what rises with the width
    value_axis(ax, LABEL)
    return names
