"""What bounds the lines: the measured roof, the datasheet, and the sizes that L2 holds."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes

from analysis.margin import Name
from analysis.palette import BLUSH, FAINT, INK, MUTED, Look
from analysis.selection import Selection


def copy_roof(ax: Axes, view: Selection, y: str) -> list[Name]:
    """Draws the measured roof: the best that any copy of the same shape reached."""
    copies = view.points[view.points["operation"] == "copy"].groupby(view.query.over)[y]
    best = (copies.min() if y == "time_us" else copies.max()).reindex(view.sizes)
    if best.isna().all():
        return []
    ax.plot(view.sizes, best.to_numpy(), color=INK, lw=1.6, label="copy roof", zorder=2.8)
    last = best.dropna().index[-1]
    whole = last == view.sizes[-1]
    return [Name("copy roof", last, best[last], Look(INK, ""), whole=whole)]


def datasheet_peak(ax: Axes, view: Selection) -> list[Name]:
    """Draws the datasheet's bandwidth, GB/s, where the card is known."""
    peak = view.card.peak_gbps
    if peak is None:
        return []
    ax.axhline(peak, color=MUTED, lw=1.0, ls=(0, (5, 2)), label="datasheet peak", zorder=2)
    return [Name(f"datasheet {peak:,.0f}", view.sizes[-1], peak, Look(MUTED, ""))]


def datasheet_floor(ax: Axes, view: Selection) -> list[Name]:
    """Draws the least time, µs, in which the datasheet's memory moves 2MN; shades below it."""
    peak = view.card.peak_gbps
    if peak is None:
        return []
    ends = np.array(ax.get_xlim())
    floor = 2 * view.at * ends * view.item_bytes / peak / 1e3
    ax.plot(ends, floor, color=MUTED, lw=1.0, ls=(0, (5, 2)), label="datasheet floor", zorder=2)
    ax.fill_between(ends, floor, 1e-9, color=BLUSH, lw=0, zorder=0.1)
    ax.text(0.985, 0.03, "faster than the card's memory", fontsize=6.5, color=MUTED, ha="right",
            transform=ax.transAxes)  # fmt: skip
    least = 2 * view.at * view.sizes[-1] * view.item_bytes / peak / 1e3
    return [Name(f"datasheet {peak:,.0f} GB/s", view.sizes[-1], least, Look(MUTED, ""))]


def shade_l2(ax: Axes, view: Selection, height: float = 0.02, told: str = "") -> None:
    """Shades the sizes at which input and output fit in the card's L2 together.

    Its caption stands at ``height``, a share of the axes, where a figure leaves it room; ``told``
    says it in other words.
    """
    size = view.card.l2_bytes
    left, right = ax.get_xlim()
    if size is None or (edge := size / (2 * view.at * view.item_bytes)) < view.sizes[0]:
        return
    ax.axvspan(left, min(edge, right), color=FAINT, alpha=0.7, lw=0, zorder=0, label="fits in L2")
    text = told or f"2MN fits in L2 ({size / 2**20:g} MiB)"
    ax.text(0.012, height, text, fontsize=6.5, color=MUTED, va="bottom",
            transform=ax.transAxes)  # fmt: skip
