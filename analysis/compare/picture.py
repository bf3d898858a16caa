"""Every point's ratio against its time, one panel per kernel, the verdict by colour and marker."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullLocator

from analysis.compare.points import ARROW
from analysis.compare.tables import by_kernel, mean_ratio, ratio_text
from analysis.figures.page import Canvas, Page
from analysis.figures.style import CACHES, FAINT, INK, MUTED, slug
from analysis.selection import timer_label
from experiments.data.cards import card_of

COLUMNS, PANEL = 4, (2.0, 1.62)  # panels a line; inches
LEFT, BOTTOM, TOP, RIGHT = 0.52, 0.70, 0.88, 0.22  # inches around them
GAP = (0.14, 0.30)
# Ratios that ticks stand at, both ways from 1, of those the outermost two that fit.
NICE = ((0.99, 1.01), (0.98, 1.02), (0.95, 1.05), (0.9, 1.1), (0.8, 1.25), (0.67, 1.5),
        (0.5, 2), (0.33, 3), (0.2, 5), (0.1, 10), (0.05, 20), (0.01, 100))  # fmt: skip


@dataclass(frozen=True)
class VerdictStyle:
    """How a verdict is drawn: differences stand out, and differ by form as well as by colour."""

    color: str
    marker: str
    size: float
    hollow: bool = False

    @property
    def face(self) -> str:
        """The colour inside the marker."""
        return "white" if self.hollow else self.color


STYLES = {
    "same": VerdictStyle("#7d8794", "o", 2.4),
    "unclear": VerdictStyle("#a08a4a", "o", 2.8, hollow=True),
    "faster": VerdictStyle("#1f6fb4", "v", 4.4),
    "slower": VerdictStyle("#d55e00", "^", 4.4),
    "failed": VerdictStyle("#a50f3c", "X", 5.2),
    "fixed": VerdictStyle("#00795c", "P", 5.2),
}


def pages(points: pd.DataFrame, threshold: float, small: Sequence[str]) -> list[Page]:
    """A picture for each GPU and protocol with a point to draw.

    Args:
        points: From `analysis.compare.points.judged`.
        threshold: What they were judged by, a share.
        small: The small print.
    """
    times = points["base_median_us"].fillna(points["head_median_us"])
    drawn = points.assign(time_us=times, y=np.log(points["ratio"]))
    drawn = drawn[points["verdict"].isin(list(STYLES)) & times.notna()]
    groups = drawn.groupby(["gpu", "timer", "cache"], sort=True)
    return [_page(mine, threshold, small) for _, mine in groups]


def _page(points: pd.DataFrame, threshold: float, small: Sequence[str]) -> Page:
    gpu, timer, cache = points.iloc[0][["gpu", "timer", "cache"]]
    kernels = by_kernel(points)
    columns = min(COLUMNS, len(kernels))
    lines = math.ceil(len(kernels) / columns)
    # one or two kernels get wider panels, so that the title has room
    across = PANEL[0] * {1: 2.6, 2: 1.4}.get(columns, 1.0)
    width = LEFT + columns * across + (columns - 1) * GAP[0] + RIGHT
    height = BOTTOM + lines * PANEL[1] + (lines - 1) * GAP[1] + TOP

    def draw(canvas: Canvas) -> None:
        for i, (name, mine) in enumerate(kernels.items()):
            row, column = divmod(i, columns)
            left = LEFT + column * (across + GAP[0])
            bottom = height - TOP - (row + 1) * PANEL[1] - row * GAP[1]
            ax = canvas.add_axes((left / width, bottom / height, across / width, PANEL[1] / height))
            _axes(ax, points, threshold, first=column == 0, last=i + columns >= len(kernels))
            _panel(ax, name, mine)
        _legend(canvas, points, LEFT / width, (height - 0.585) / height, 1 / width)
        canvas.text(LEFT / width, 0.38 / height, "time of BASE, µs", fontsize=8)

    card = ARROW.join(card_of(name).name for name in gpu.split(ARROW))
    protocol = f"{timer_label(timer)}, {CACHES.get(cache, cache)}"
    subtitle = f"{card}  ·  {protocol}  ·  above 1 is slower"
    name = f"compare-{slug(gpu)}-{slug(timer)}-{slug(cache)}"
    return Page(name, "Time of HEAD / BASE, point by point", subtitle, small, draw,
                (width, height), gpu)  # fmt: skip


def _axes(ax: Axes, points: pd.DataFrame, threshold: float, *, first: bool, last: bool) -> None:
    """Axes that hold all points of the page, the threshold as a band."""
    limit = math.log1p(threshold)
    # all ratios, and three thresholds at least; an interval may end beyond
    reach = 1.12 * max([*points["y"].abs().dropna(), 3 * limit])
    low, high = points["time_us"].min(), points["time_us"].max()
    margin = 1.25 if high > 4 * low else 2.5  # an axis needs two ticks
    ax.set_xscale("log")
    ax.set_xlim(low / margin, high * margin)
    ax.set_ylim(-reach, reach)
    ax.axhspan(-limit, limit, color=FAINT, lw=0, zorder=0)
    ax.axhline(0, color=MUTED, lw=0.8, zorder=1)
    ticks = [pair for pair in NICE if abs(math.log(pair[0])) <= reach][-2:]
    ax.yaxis.set_major_locator(FixedLocator([math.log(v) for pair in ticks for v in (*pair, 1)]))
    ax.yaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{math.exp(v):.4g}" if first else ""))
    ax.xaxis.set_major_locator(LogLocator(base=10, subs=(1,) if high > 40 * low else (1, 2, 5)))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.xaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:,g}" if last else ""))
    ax.tick_params(length=2, labelsize=7)
    for side in ("top", "right", "left"):
        ax.spines[side].set_visible(False)


def _panel(ax: Axes, name: str, points: pd.DataFrame) -> None:
    """One kernel's points with their intervals."""
    top = ax.get_ylim()[1]
    for verdict, style in STYLES.items():
        mine = points[points["verdict"] == verdict]
        if mine.empty:
            continue
        # a point that failed has no ratio: it stands at the upper edge, where what is worse stands
        edge = {"failed": top * 0.92, "fixed": -top * 0.92}.get(verdict, 0.0)
        x, y = mine["time_us"].to_numpy(float), mine["y"].fillna(edge).to_numpy(float)
        ax.vlines(x, np.log(mine["low"]), np.log(mine["high"]), color=style.color, lw=0.5,
                  alpha=0.45, zorder=1.5)  # fmt: skip
        ax.plot(x, y, ls="", marker=style.marker, ms=style.size, mfc=style.face, mec=style.color,
                mew=0.6, zorder=2 + style.size / 10)  # fmt: skip
    ax.text(0, 1.03, name if len(name) <= 26 else name[:25] + "…", transform=ax.transAxes,
            fontsize=8, fontweight="bold", color=INK)  # fmt: skip
    ax.text(1, 1.03, f"mean {ratio_text(mean_ratio(points))}", transform=ax.transAxes,
            fontsize=6.5, color=MUTED, ha="right")  # fmt: skip


def _legend(canvas: Canvas, points: pd.DataFrame, left: float, top: float, inch: float) -> None:
    """Writes how many points have each verdict, in one line that begins at (left, top)."""
    ax = canvas.add_axes((0, 0, 1, 1), zorder=5)
    ax.set_axis_off()
    ax.set(xlim=(0, 1), ylim=(0, 1))
    ax.patch.set_alpha(0)
    for verdict, style in reversed(STYLES.items()):
        if not (count := int(points["verdict"].eq(verdict).sum())):
            continue
        ax.plot([left + 0.04 * inch], [top], ls="", marker=style.marker, ms=style.size + 1,
                mfc=style.face, mec=style.color, mew=0.7)  # fmt: skip
        text = f"{verdict} {count:,}"
        ax.text(left + 0.13 * inch, top, text, fontsize=7.5, va="center", color=INK)
        left += (0.33 + 0.062 * len(text)) * inch
