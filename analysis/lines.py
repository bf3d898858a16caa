"""Lines over a size: what the variants measured, and what a source published."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from analysis.margin import Name
from analysis.palette import INK, LOOKS, Look, look_of
from analysis.selection import Selection, records_of
from analysis.sheet import mark
from analysis.style import size_label

DASHES = ("-", (0, (4, 1.5)), (0, (1, 1)), (0, (5, 1, 1, 1)))
MARK_ALL = 16  # points a line may have before their markers hide it
FLAG_NOTE = "crossed out: faster than the copy roof, not a win"


def lines(ax: Axes, view: Selection, y: str) -> list[Name]:
    """Draws column ``y`` of every softmax variant against the view's size; returns their names.

    A line breaks where its variant has no valid time. The 95 % interval stands on every point.
    Points above the roof are taken out of the line, drawn open and crossed out.
    """
    own = view.points[view.points["operation"] != "copy"]
    names, drawn = [], dict[str, int]()
    for variant in sorted(own["variant"].unique(), key=variant_order):
        line = own[own["variant"] == variant].set_index(view.query.over).reindex(view.sizes)
        value = line[y].where(line["status"] == "ok").to_numpy(dtype=float)
        if not np.isfinite(value).any():
            continue
        kernel = variant.split(" ")[0]
        look, x = look_of(kernel), np.array(view.sizes, dtype=float)
        dash = DASHES[drawn.setdefault(kernel, 0) % len(DASHES)]
        drawn[kernel] += 1
        flagged = line["above_roof"].eq(True).to_numpy()
        kept = np.where(flagged, np.nan, value)
        ax.plot(x, kept, ls=dash, lw=1.4, color=look.color, label=variant, zorder=3,
                marker=look.marker, ms=look.size, mec="white", mew=0.6,
                markevery=_marked(x, kept), gid=gid_of(variant))  # fmt: skip
        mark(ax, x, value, records_of(line.reset_index()))
        low, high = (np.where(np.isfinite(value), end, np.nan) for end in interval(line, y))
        ax.vlines(x, low, high, color=look.color, lw=1.0, zorder=2.5)
        _flag(ax, x[flagged], value[flagged], look)
        last = int(np.flatnonzero(np.isfinite(value))[-1])
        whole = last == len(x) - 1
        text = variant if whole else f"{variant}, to {size_label(x[last])}"
        names.append(Name(text, x[last], value[last], look, whole=whole))
    return names


def gid_of(variant: str) -> str:
    """What a drawn file calls the line of a variant's rows."""
    return "rows:" + re.sub(r"[^\w.=-]", "_", variant)


def interval(line: pd.DataFrame, y: str) -> tuple[np.ndarray, np.ndarray]:
    """The 95 % interval of ``y``, a time in µs or anything that is inverse to the time.

    A column that brings its own (``y_low``, ``y_high``) keeps it.
    """
    if f"{y}_low" in line:
        return line[f"{y}_low"].to_numpy(dtype=float), line[f"{y}_high"].to_numpy(dtype=float)
    time, low, high = (
        line[c].to_numpy(dtype=float) for c in ("time_us", "time_low_us", "time_high_us")
    )
    if y == "time_us":
        return low, high
    value = line[y].to_numpy(dtype=float)
    return value * time / high, value * time / low


def published(
    ax: Axes, sizes: Sequence[int], series: Mapping[str, Sequence[float]], source: str
) -> list[Name]:
    """Draws a source's own series as it printed them: open markers on pale dashes.

    Their names begin with the source's letter.
    """
    names = []
    for kernel, values in series.items():
        look, name = look_of(kernel), f"{source}: {kernel}"
        ax.plot(sizes, values, ls=(0, (3, 2)), lw=0.9, color=look.color, alpha=0.75,
                marker=look.marker, ms=look.size, mfc="white", mec=look.color, mew=0.9,
                label=name, zorder=2.6)  # fmt: skip
        names.append(Name(name, sizes[-1], values[-1], look, hollow=True))
    return names


def _flag(ax: Axes, x: np.ndarray, y: np.ndarray, look: Look) -> None:
    if not x.size:
        return
    ax.plot(x, y, ls="", marker=look.marker, ms=look.size, mfc="white", mec=look.color, mew=0.9,
            label="above roof", zorder=3.2)  # fmt: skip
    ax.plot(x, y, "x", ms=3.2, mec=INK, mew=0.7, zorder=3.3)


def _marked(x: np.ndarray, y: np.ndarray) -> list[int]:
    """Which points carry a marker: where they are many, one each half octave and any lone one."""
    real = np.isfinite(y)
    if real.sum() <= MARK_ALL:
        return [int(i) for i in np.flatnonzero(real)]
    padded = np.concatenate([[False], real, [False]])
    marked: list[int] = []
    reached = -math.inf
    for i in np.flatnonzero(real):
        alone = not padded[i] and not padded[i + 2]
        if alone or math.log2(x[i]) - reached >= 0.499:
            marked.append(int(i))
            reached = math.log2(x[i])
    return marked


def variant_order(variant: str) -> tuple[int, str]:
    """Sorts variants as the palette lists them, any others after them."""
    known = list(LOOKS)
    kernel = variant.split(" ")[0]
    return (known.index(kernel) if kernel in LOOKS else len(known), variant)
