"""What figures over a size are made of: variants' lines, roofs, shading, published series."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from analysis.margin import Name
from analysis.palette import FAINT, INK, LOOKS, MUTED, look_of
from analysis.style import size_label
from analysis.view import View

DASHES = ("-", (0, (4, 1.5)), (0, (1, 1)), (0, (5, 1, 1, 1)))
FLAG_NOTE = "crossed out: faster than the copy roof, not a win"


def lines(ax: Axes, view: View, y: str) -> list[Name]:
    """Draws column ``y`` of every softmax variant against the view's size; returns their names.

    A line breaks where its variant has no valid time. The 95 % interval stands on every point.
    Points above the roof are taken out of the line, drawn open and crossed out.
    """
    own = view.points[view.points["operation"] != "copy"]
    names, drawn = [], dict[str, int]()
    for variant in sorted(own["variant"].unique(), key=_order):
        line = own[own["variant"] == variant].set_index(view.wanted.over).reindex(view.sizes)
        value = line[y].where(line["status"] == "ok").to_numpy(dtype=float)
        if not np.isfinite(value).any():
            continue
        kernel = variant.split(" ")[0]
        look, x = look_of(kernel), np.array(view.sizes, dtype=float)
        dash = DASHES[drawn.setdefault(kernel, 0) % len(DASHES)]
        drawn[kernel] += 1
        flagged = line["above_roof"].eq(True).to_numpy()
        kept = np.where(flagged, np.nan, value)
        ax.plot(x, kept, ls=dash, lw=1.4, color=look.color, marker=look.marker, ms=5.5,
                mec="white", mew=0.6, markevery=_marked(x, kept), label=variant, zorder=3)  # fmt: skip
        low, high = interval(line, y)
        ax.vlines(x, low, high, color=look.color, lw=1.0, zorder=2.5)
        _flag(ax, x[flagged], value[flagged], look.color, look.marker)
        last = int(np.flatnonzero(np.isfinite(value))[-1])
        whole = last == len(x) - 1
        text = variant if whole else f"{variant}, to {size_label(x[last])}"
        names.append(Name(text, x[last], value[last], look.color, look.marker, whole=whole))
    return names


def interval(line: pd.DataFrame, y: str) -> tuple[np.ndarray, np.ndarray]:
    """The 95 % interval of ``y``, a time in µs or anything that is inverse to the time."""
    time, low, high = (line[c].to_numpy(dtype=float) for c in ("time_us", "time_low_us", "time_high_us"))
    if y == "time_us":
        return low, high
    value = line[y].to_numpy(dtype=float)
    return value * time / high, value * time / low


def copy_roof(ax: Axes, view: View, y: str) -> list[Name]:
    """Draws the measured roof: the best that any copy of the same shape reached."""
    copies = view.points[view.points["operation"] == "copy"].groupby(view.wanted.over)[y]
    best = (copies.min() if y == "time_us" else copies.max()).reindex(view.sizes)
    if best.isna().all():
        return []
    ax.plot(view.sizes, best.to_numpy(), color=INK, lw=1.6, label="copy roof", zorder=2.8)
    last = best.last_valid_index()
    return [Name("copy roof", float(last), float(best[last]), INK, whole=last == view.sizes[-1])]


def datasheet_peak(ax: Axes, view: View) -> list[Name]:
    """Draws the datasheet's bandwidth, GB/s, where the card is known."""
    peak = view.card.peak_gbps
    if peak is None:
        return []
    ax.axhline(peak, color=MUTED, lw=1.0, ls=(0, (5, 2)), label="datasheet peak", zorder=2)
    return [Name(f"datasheet {peak:,.0f}", view.sizes[-1], peak, MUTED)]


def datasheet_floor(ax: Axes, view: View) -> list[Name]:
    """Draws the least time, µs, in which the datasheet's memory moves 2MN; shades below it."""
    peak = view.card.peak_gbps
    if peak is None:
        return []
    ends = np.array(ax.get_xlim())
    floor = 2 * view.at * ends * view.item_bytes / peak / 1e3
    ax.plot(ends, floor, color=MUTED, lw=1.0, ls=(0, (5, 2)), label="datasheet floor", zorder=2)
    ax.fill_between(ends, floor, 1e-9, color=FAINT, lw=0, zorder=0)
    least = 2 * view.at * view.sizes[-1] * view.item_bytes / peak / 1e3
    return [Name(f"datasheet {peak:,.0f} GB/s", view.sizes[-1], least, MUTED)]


def shade_l2(ax: Axes, view: View) -> None:
    """Shades the sizes at which input and output fit in the card's L2 together."""
    size = view.card.l2_bytes
    left, right = ax.get_xlim()
    if size is None or (edge := size / (2 * view.at * view.item_bytes)) <= left:
        return
    ax.axvspan(left, min(edge, right), color=FAINT, alpha=0.7, lw=0, zorder=0, label="fits in L2")
    ax.text(left * 2**0.08, 0.985, f"2MN fits in L2 ({size / 2**20:g} MiB)", fontsize=6.5,
            color=MUTED, va="top", transform=ax.get_xaxis_transform())  # fmt: skip


def published(
    ax: Axes, sizes: Sequence[int], series: Mapping[str, Sequence[float]], source: str
) -> list[Name]:
    """Draws a source's own series as it printed them: open markers on pale dashes."""
    names = []
    for kernel, values in series.items():
        look = look_of(kernel)
        ax.plot(sizes, values, ls=(0, (3, 2)), lw=0.9, color=look.color, alpha=0.75,
                marker=look.marker, ms=5.5, mfc="white", mec=look.color, mew=0.9,
                label=f"{kernel}, {source}", zorder=2.6)  # fmt: skip
        names.append(Name(f"{kernel}, {source}", sizes[-1], values[-1], look.color, look.marker, True))
    return names


def _flag(ax: Axes, x: np.ndarray, y: np.ndarray, color: str, marker: str) -> None:
    if not x.size:
        return
    ax.plot(x, y, marker, ms=5, mfc="white", mec=color, mew=0.9, label="above roof", zorder=3.2)
    ax.plot(x, y, "x", ms=3.2, mec=INK, mew=0.7, zorder=3.3)


def _marked(x: np.ndarray, y: np.ndarray) -> list[int]:
    """Which points carry a marker: one each half octave, and any that no line reaches."""
    real = np.isfinite(y)
    padded = np.concatenate([[False], real, [False]])
    marked: list[int] = []
    reached = -math.inf
    for i in np.flatnonzero(real):
        alone = not padded[i] and not padded[i + 2]
        if alone or math.log2(x[i]) - reached >= 0.499:
            marked.append(int(i))
            reached = math.log2(x[i])
    return marked


def _order(variant: str) -> tuple[int, str]:
    known = list(LOOKS)
    kernel = variant.split(" ")[0]
    return (known.index(kernel) if kernel in LOOKS else len(known), variant)
