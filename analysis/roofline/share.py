"""The main picture: each variant's share of the measured copy roof against N."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MultipleLocator

from analysis.figures.draw import Label, LineFigure, Panel, lines, shade_l2
from analysis.figures.style import INK, MUTED, LineStyle, value_axis
from analysis.selection import Query, Selection

CAPTION = "Each variant's share of the fastest measured copy of the same shape against row width."
TOP = 125.0  # %; the datasheet peak is far above where launches bound the copy as well


def draw(ax: Axes, shown: Selection, panel: Panel) -> list[Label]:
    """Percent from 0; 100 % is the fastest copy of the same shape, measured beside it."""
    shares = shown.points.assign(share_percent=100 * shown.points["fraction_of_roof"])
    labels = lines(ax, replace(shown, points=shares), y=panel.y)
    ax.axhline(100, color=INK, lw=1.6, label="copy roof", zorder=2.8)
    labels.append(Label("copy roof", shown.sizes[-1], 100, LineStyle(INK, "")))
    labels += _datasheet(ax, shown)
    highest = float(np.nanmax(shares["share_percent"]))
    ax.set_ylim(0, max(TOP, 1.04 * highest))
    shade_l2(ax, shown)
    value_axis(ax, panel.label)
    ax.yaxis.set_major_locator(MultipleLocator(20))
    return labels


def has_roof(shown: Selection) -> bool:
    """Whether a copy was timed beside any variant."""
    own = shown.points[shown.points["operation"] != "copy"]
    return bool(own["fraction_of_roof"].notna().any())


def _datasheet(ax: Axes, shown: Selection) -> list[Label]:
    roofs = shown.points.groupby(shown.query.over)["roof_gbps"].max().reindex(shown.sizes)
    if shown.card.peak_gbps is None:
        return []
    peak = 100 * shown.card.peak_gbps / roofs
    ax.plot(
        shown.sizes, peak, color=MUTED, lw=1.0, ls=(0, (5, 2)), label="datasheet peak", zorder=2
    )
    last = peak.dropna()
    text = f"datasheet {shown.card.peak_gbps:,.0f} GB/s"
    return [Label(text, last.index[-1], last.iloc[-1], LineStyle(MUTED, ""))]


SHARE = LineFigure(
    "roofline_share",
    "Share of the roof by row width",
    Query(4096, "float32"),
    (Panel("share_percent", "share of the copy roof, % of its bandwidth"),),
    draw=draw,
    caption=CAPTION,
    allowed=has_roof,
    besides="copies beside them",
)
