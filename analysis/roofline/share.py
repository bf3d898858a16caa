"""The main picture: each variant's share of the measured copy roof against N."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MultipleLocator

from analysis.figure import Figure
from analysis.lines import lines
from analysis.margin import Name, write_names
from analysis.palette import INK, MUTED, Look
from analysis.roofs import shade_l2
from analysis.selection import Query, Selection
from analysis.style import value_axis

CAPTION = "Each variant's share of the fastest measured copy of the same shape against row width."
TOP = 125.0  # %; the datasheet peak is far above where launches bound the copy as well


def draw(ax: Axes, view: Selection) -> None:
    """Percent from 0; 100 % is the fastest copy of the same shape, measured beside it."""
    shares = view.points.assign(share_percent=100 * view.points["fraction_of_roof"])
    names = lines(ax, replace(view, points=shares), y="share_percent")
    ax.axhline(100, color=INK, lw=1.6, label="copy roof", zorder=2.8)
    names.append(Name("copy roof", view.sizes[-1], 100, Look(INK, "")))
    names += _datasheet(ax, view)
    highest = float(np.nanmax(shares["share_percent"]))
    ax.set_ylim(0, max(TOP, 1.04 * highest))
    shade_l2(ax, view)
    value_axis(ax, "share of the copy roof, % of its bandwidth")
    ax.yaxis.set_major_locator(MultipleLocator(20))
    write_names(ax, names)


def has_roof(view: Selection) -> bool:
    """Whether a copy was timed beside any variant."""
    own = view.points[view.points["operation"] != "copy"]
    return bool(own["fraction_of_roof"].notna().any())


def _datasheet(ax: Axes, view: Selection) -> list[Name]:
    roofs = view.points.groupby(view.query.over)["roof_gbps"].max().reindex(view.sizes)
    if view.card.peak_gbps is None:
        return []
    peak = 100 * view.card.peak_gbps / roofs
    ax.plot(view.sizes, peak, color=MUTED, lw=1.0, ls=(0, (5, 2)), label="datasheet peak", zorder=2)
    last = peak.dropna()
    text = f"datasheet {view.card.peak_gbps:,.0f} GB/s"
    return [Name(text, last.index[-1], last.iloc[-1], Look(MUTED, ""))]


SHARE = Figure(
    "roofline_share",
    "Share of the roof by row width",
    Query(4096, "float32"),
    draw,
    caption=CAPTION,
    allowed=has_roof,
    besides="copies beside them",
)
