"""Lines over a size: what variants measured, what bounds them, what the sources printed of them.

`LineFigure` is a figure of such lines, and `draw_panel` is the one function that draws them. The
parts it is made of are here as well, for pictures of another kind that need some of them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from scipy.optimize import isotonic_regression

from analysis.estimate import comparable, speedups
from analysis.figures.page import SIZE, Canvas, Page, mark, provenance
from analysis.figures.style import (
    BLUSH,
    DOT,
    FAINT,
    INK,
    MUTED,
    LineStyle,
    ratio_axis,
    size_axis,
    size_label,
    slug,
    style_of,
    value_axis,
    variant_order,
)
from analysis.load import Records
from analysis.published import Level, series, sources
from analysis.selection import Query, Selection, records_of, select
from experiments.data.cards import card_of

LEFT, BOTTOM, WIDE, HIGH = 0.088, 0.212, 0.652, 0.613  # of the axes; labels stand right of them
LEADER, MARK, TEXT = 1.035, 1.055, 1.08  # where labels begin, in widths of the axes
LONGEST = 28  # characters of a label; longer ones do not fit legibly
DASHES = ("-", (0, (4, 1.5)), (0, (1, 1)), (0, (5, 1, 1, 1)))
LEVEL_DASH = (0, (1.5, 1.5))
MARK_ALL = 16  # points a line may have before their markers hide it
FLAG_NOTE = "crossed out: faster than the copy roof, not a win"
SAME = 0.02  # a ratio this near 1 is drawn by the line of the variant compared with
PLACES, HALF = 49, 4  # where words may stand along a level, and half their length in places
MIDDLE = 1.035  # how far above a level the middle of words on it is


@dataclass(frozen=True)
class Panel:
    """What one pair of axes shows over a size.

    Attributes:
        y: The column drawn: ``time_us``, ``effective_gbps``, or ``speedup`` over a variant.
        label: Of the y axis.
        scale: ``linear`` from 0, ``log``, or ``ratio``, a log2 that shows 1 as the middle.
        over: The variants that a speedup is over: rows over the first, claims over any of them.
        series: The name of a source's printed numbers that are drawn beside, such as ``a_fig2``.
        levels: The letters of the sources whose claims without a size are drawn as levels.
        card: The letter of a source whose own card's datasheet peak is drawn, if any.
        place: Bottom and height of the axes, shares of the canvas.
        gap: The least distance of two labels, in heights of the axes.
        l2: How high the caption of the sizes that fit in L2 stands, where a figure leaves it room.
    """

    y: str
    label: str
    scale: Literal["linear", "log", "ratio"] = "linear"
    over: tuple[str, ...] = ()
    series: str = ""
    levels: tuple[str, ...] = ()
    card: str = ""
    place: tuple[float, float] = (BOTTOM, HIGH)
    gap: float = 0.062
    l2: float = 0.87  # below the datasheet's peak, above what rises with the width


@dataclass(frozen=True)
class Label:
    """A line's name at its last point, written in the right margin instead of a legend.

    Attributes:
        text: What is written.
        x: Where the line ends, in data coordinates.
        y: How high it ends there.
        style: Of the line; an empty marker for a line without.
        hollow: Whether the marker is drawn open.
        whole: Whether the line reaches the end of the axis; only then a leader joins them.
    """

    text: str
    x: float
    y: float
    style: LineStyle
    hollow: bool = False
    whole: bool = True


def draw_panel(ax: Axes, shown: Selection, panel: Panel) -> list[Label]:
    """Draws a panel on axes whose size axis is ready; returns the labels of its lines.

    Bandwidths start at 0 and are scaled to the rows: what a source printed of a faster card does
    not squeeze them. Times span decades, so their axis is a logarithm that holds all of them.
    """
    if panel.scale != "linear":
        ax.set_yscale("log", base=2 if panel.scale == "ratio" else 10)
    compared = speedups(shown, panel.over[0]) if panel.over else shown
    labels = lines(ax, compared, panel.y)
    if panel.over:
        base = panel.over[0]
        labels.append(_across(ax, shown, 1, f"{base} = 1", INK, lw=1.2, zorder=2.4, label=base))
    else:
        labels += copy_roof(ax, shown, panel.y)
    if panel.y == "effective_gbps":
        labels += datasheet_peak(ax, shown)
    if panel.scale == "linear" and not panel.over:
        ax.set_ylim(0, None)
    labels += _printed(ax, shown, panel) + _levels(ax, shown, panel) + _own_card(ax, shown, panel)
    if panel.y == "time_us":
        labels += datasheet_floor(ax, shown)
    if panel.scale == "ratio":
        _predicted(ax, compared)
        ratio_axis(ax, panel.label)
    else:
        if panel.over:
            ax.set_ylim(0, None)
        else:
            shade_l2(ax, shown, panel.l2)
        value_axis(ax, panel.label)
    return labels


@dataclass(frozen=True)
class LineFigure:
    """A figure of lines over N or M: a picture for each GPU whose rows allow it.

    Attributes:
        id: Its file name, e.g. ``"d_fig1"``.
        title: What it shows, in a few words.
        query: The rows it draws.
        panels: Its axes, from the top.
        note: A last line for the small print, on what is published, where that is drawn.
        caption: One sentence: what it shows, and which source's figure it draws again.
        size: Width and height, inches.
        draw: Puts a panel on axes whose size axis is ready and returns the labels of its lines.
        allowed: Whether rows that make a selection make this figure as well.
        besides: What that takes, in a few words.
    """

    id: str
    title: str
    query: Query
    panels: tuple[Panel, ...]
    note: str = ""
    caption: str = ""
    size: tuple[float, float] = SIZE
    draw: Callable[[Axes, Selection, Panel], list[Label]] = draw_panel
    allowed: Callable[[Selection], bool] = lambda shown: True
    besides: str = ""

    @property
    def needs(self) -> str:
        """Which rows it cannot do without, in one line."""
        over, fixed = ("N", "M") if self.query.over == "cols" else ("M", "N")
        bases = dict.fromkeys(f"{panel.over[0]} among them" for panel in self.panels if panel.over)
        return ", ".join([
            f"{self.id} needs timed softmax rows of one {fixed} and dtype at two or more {over}",
            f"best {fixed} = {self.query.at} {self.query.dtype}",
            *bases, *filter(None, [self.besides]),
        ])  # fmt: skip

    def pages(self, records: Records, frame: pd.DataFrame) -> list[Page]:
        """A picture for each GPU whose rows allow it."""
        several = [select(frame, gpu, self.query) for gpu in sorted(frame["gpu"].unique())]
        return [self._page(shown) for shown in several if shown is not None and self._allows(shown)]

    def _allows(self, shown: Selection) -> bool:
        bases = {panel.over[0] for panel in self.panels if panel.over}
        return all(comparable(base)(shown) for base in bases) and self.allowed(shown)

    def _page(self, shown: Selection) -> Page:
        fixed = "M" if shown.query.over == "cols" else "N"
        subtitle = DOT.join([shown.card.name, shown.dtype, f"{fixed} = {shown.at}"])
        notes = flagged(shown)
        small = provenance(shown.recorded, shown.card.name, shown.timer, shown.cache, notes)
        small += [self.note] if self.note and shown.exact else []

        def draw(canvas: Canvas) -> None:
            for panel in self.panels:
                ax = canvas.add_axes((LEFT, panel.place[0], WIDE, panel.place[1]))
                size_axis(ax, shown.sizes, shown.query.over)
                write_labels(ax, self.draw(ax, shown, panel), panel.gap)
                if panel is not self.panels[-1]:
                    ax.set_xlabel("")

        return Page(f"{self.id}-{slug(shown.gpu)}", self.title, subtitle, small, draw, self.size,
                    shown.gpu)  # fmt: skip


def flagged(*several: Selection) -> list[str]:
    """The remark on points that are crossed out, where there are any."""
    own = (shown.points[shown.points["operation"] != "copy"] for shown in several)
    return [FLAG_NOTE] if any(points["above_roof"].eq(True).any() for points in own) else []


def lines(ax: Axes, shown: Selection, y: str) -> list[Label]:
    """Draws column ``y`` of every softmax variant against a size; returns their labels.

    A line breaks where its variant has no valid time. The 95 % interval stands on every point.
    Points above the roof are taken out of the line, drawn open and crossed out.
    """
    own = shown.points[shown.points["operation"] != "copy"]
    labels, drawn = [], dict[str, int]()
    for variant in sorted(own["variant"].unique(), key=variant_order):
        line = own[own["variant"] == variant].set_index(shown.query.over).reindex(shown.sizes)
        value = line[y].where(line["status"] == "ok").to_numpy(dtype=float)
        if not np.isfinite(value).any():
            continue
        kernel = variant.split(" ")[0]
        style, x = style_of(kernel), np.array(shown.sizes, dtype=float)
        dash = DASHES[drawn.setdefault(kernel, 0) % len(DASHES)]
        drawn[kernel] += 1
        above = line["above_roof"].eq(True).to_numpy()
        kept = np.where(above, np.nan, value)
        ax.plot(x, kept, ls=dash, lw=1.4, color=style.color, label=variant, zorder=3,
                marker=style.marker, ms=style.size, mec="white", mew=0.6,
                markevery=_marked(x, kept), gid=gid_of(variant))  # fmt: skip
        mark(ax, x, value, records_of(line.reset_index()))
        low, high = (np.where(np.isfinite(value), end, np.nan) for end in interval(line, y))
        ax.vlines(x, low, high, color=style.color, lw=1.0, zorder=2.5)
        if above.any():
            ax.plot(x[above], value[above], ls="", marker=style.marker, ms=style.size, mfc="white",
                    mec=style.color, mew=0.9, label="above roof", zorder=3.2)  # fmt: skip
            ax.plot(x[above], value[above], "x", ms=3.2, mec=INK, mew=0.7, zorder=3.3)
        last = int(np.flatnonzero(np.isfinite(value))[-1])
        whole = last == len(x) - 1
        text = variant if whole else f"{variant}, to {size_label(x[last])}"
        labels.append(Label(text, x[last], value[last], style, whole=whole))
    return labels


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


def copy_roof(ax: Axes, shown: Selection, y: str) -> list[Label]:
    """Draws the measured roof: the best that any copy of the same shape reached."""
    copies = shown.points[shown.points["operation"] == "copy"].groupby(shown.query.over)[y]
    best = (copies.min() if y == "time_us" else copies.max()).reindex(shown.sizes)
    if best.isna().all():
        return []
    ax.plot(shown.sizes, best.to_numpy(), color=INK, lw=1.6, label="copy roof", zorder=2.8)
    last = best.dropna().index[-1]
    whole = last == shown.sizes[-1]
    return [Label("copy roof", last, best[last], LineStyle(INK, ""), whole=whole)]


def datasheet_peak(ax: Axes, shown: Selection) -> list[Label]:
    """Draws the datasheet's bandwidth, GB/s, where the card is known."""
    peak = shown.card.peak_gbps
    if peak is None:
        return []
    text = f"datasheet {peak:,.0f}"
    return [_across(ax, shown, peak, text, MUTED, lw=1.0, ls=(0, (5, 2)), label="datasheet peak",
                    zorder=2)]  # fmt: skip


def datasheet_floor(ax: Axes, shown: Selection) -> list[Label]:
    """Draws the least time, µs, in which the datasheet's memory moves 2MN; shades below it."""
    ax.set_ylim(*ax.get_ylim())
    peak = shown.card.peak_gbps
    if peak is None:
        return []
    ends = np.array(ax.get_xlim())
    floor = 2 * shown.at * ends * shown.item_bytes / peak / 1e3
    ax.plot(ends, floor, color=MUTED, lw=1.0, ls=(0, (5, 2)), label="datasheet floor", zorder=2)
    ax.fill_between(ends, floor, 1e-9, color=BLUSH, lw=0, zorder=0.1)
    ax.text(0.985, 0.03, "faster than the card's memory", fontsize=6.5, color=MUTED, ha="right",
            transform=ax.transAxes)  # fmt: skip
    least = 2 * shown.at * shown.sizes[-1] * shown.item_bytes / peak / 1e3
    text = f"datasheet {peak:,.0f} GB/s"
    return [Label(text, shown.sizes[-1], least, LineStyle(MUTED, ""))]


def shade_l2(ax: Axes, shown: Selection, height: float = 0.02, caption: str = "") -> None:
    """Shades the sizes at which input and output fit in the card's L2 together.

    The ``caption``, by default the cache's size, stands at ``height``, a share of
    the axes.
    """
    size = shown.card.l2_bytes
    left, right = ax.get_xlim()
    if size is None or (edge := size / (2 * shown.at * shown.item_bytes)) < shown.sizes[0]:
        return
    ax.axvspan(left, min(edge, right), color=FAINT, alpha=0.7, lw=0, zorder=0, label="fits in L2")
    text = caption or f"2MN fits in L2 ({size / 2**20:g} MiB)"
    ax.text(0.012, height, text, fontsize=6.5, color=MUTED, va="bottom",
            transform=ax.transAxes)  # fmt: skip


def _across(ax: Axes, shown: Selection, y: float, text: str, color: str, **line: Any) -> Label:
    """Draws a line at ``y`` over all sizes; returns its label."""
    ax.axhline(y, color=color, **line)
    return Label(text, shown.sizes[-1], y, LineStyle(color, ""))


def _as_run(shown: Selection, kernel: str) -> str:
    """C's numbers of `hybrid` are of `hybrid_whole`, where rows hold it: so C ran it."""
    whole = kernel == "hybrid" and "hybrid_whole" in set(shown.points["kernel"])
    return "hybrid_whole" if whole else kernel


def _printed(ax: Axes, shown: Selection, panel: Panel) -> list[Label]:
    """Draws a source's own series, beside rows of its shape and dtype alone.

    Open markers on pale dashes; their names begin with the source's letter.
    """
    if not panel.series or not shown.exact:
        return []
    printed, letter, labels = series(panel.series), panel.series[0].upper(), []
    kernels: Mapping[str, Sequence[float]] = printed.kernels
    if panel.over:  # its times as ratios; naive's own are what the figures of speedups are about
        base = kernels[panel.over[0]]
        kernels = {
            kernel: [b / t for b, t in zip(base, times, strict=True)]
            for kernel, times in kernels.items()
            if kernel not in (panel.over[0], "naive")
        }
    for kernel, values in kernels.items():
        kernel = _as_run(shown, kernel)
        style, name = style_of(kernel), f"{letter}: {kernel}"
        ax.plot(printed.sizes, values, ls=(0, (3, 2)), lw=0.9, color=style.color, alpha=0.75,
                marker=style.marker, ms=style.size, mfc="white", mec=style.color, mew=0.9,
                label=name, zorder=2.6)  # fmt: skip
        labels.append(Label(name, printed.sizes[-1], values[-1], style, hollow=True))
    return labels


def _levels(ax: Axes, shown: Selection, panel: Panel) -> list[Label]:
    """Draws what sources claim without a size, where rows have the shape and dtype meant."""
    labels = []
    for letter in panel.levels:
        source = sources()[letter]
        if not shown.exact or source.dtype != shown.dtype:
            continue
        for ratio in source.ratios if panel.over else ():
            if ratio.over in panel.over:
                labels.append(_level(ax, shown, ratio.kernel, ratio.low, ratio.high, ratio.label))
        for level in () if panel.over else source.levels:
            if level.quantity == panel.y:
                kernel = _as_run(shown, level.kernel)
                text = f"{letter}: {kernel} {_ends(level)}"
                labels.append(_level(ax, shown, kernel, level.low, level.high, text))
    return labels


def _level(ax: Axes, shown: Selection, kernel: str, low: float, high: float, text: str) -> Label:
    """Draws a level as a dashed line, or from ``low`` to ``high`` as a band."""
    color = style_of(kernel).color
    if low == high:
        return _across(ax, shown, low, text, color, lw=1.1, ls=LEVEL_DASH, alpha=0.9, zorder=2.2,
                       label=text)  # fmt: skip
    ax.axhspan(low, high, color=color, alpha=0.13, lw=0, zorder=0.2, label=text)
    for end in (low, high):
        ax.axhline(end, color=color, lw=0.7, ls=LEVEL_DASH, alpha=0.8, zorder=2.2)
    return Label(text, shown.sizes[-1], (low + high) / 2, LineStyle(color, ""))


def _ends(level: Level) -> str:
    if level.low < level.high:
        return f"{level.low:,g}–{level.high:,g}"
    return f"{level.low:,g}" + ("+" if level.of == "floor" else "")


def _own_card(ax: Axes, shown: Selection, panel: Panel) -> list[Label]:
    """Draws the datasheet's peak of a source's card: what that source could have seen at most."""
    if not panel.card or not shown.exact:
        return []
    peak = card_of(sources()[panel.card].card or "").peak_gbps
    if peak is None:
        return []
    name = f"{panel.card}'s card"
    return [_across(ax, shown, peak, f"{name} {peak:,.0f}", MUTED, lw=1.0, ls=LEVEL_DASH,
                    label=name, zorder=2)]  # fmt: skip


def _predicted(ax: Axes, compared: Selection) -> None:
    """Draws the ratios of the models' bytes, one quiet line for all variants that share a model."""
    simple = compared.points[~compared.points["model_formula"].str.contains(" if ", na=True)]
    for formula, alike in simple.groupby("model_formula"):
        by_size = alike.groupby(compared.query.over)["traffic_ratio"].first().dropna()
        if by_size.empty or abs(by_size.iloc[-1] - 1) < SAME:
            continue
        ax.plot(by_size.index, by_size, color=MUTED, lw=0.8, ls=(0, (1, 2)), zorder=1)
        ax.text(_clear(ax, by_size.iloc[-1]), by_size.iloc[-1], f"{formula} by traffic",
                fontsize=6, color=MUTED, va="bottom", ha="center", zorder=1.1)  # fmt: skip


def _clear(ax: Axes, level: float) -> float:
    """Where along ``level`` words above it keep farthest from the nearest line over a size."""
    across = np.geomspace(*ax.get_xlim(), PLACES)
    room = np.full(PLACES, np.inf)
    for line in ax.get_lines():
        x, y = (np.asarray(side, dtype=float) for side in line.get_data())
        real = np.isfinite(y) & (x > 0)
        if real.sum() > 1 and np.ptp(y[real]) > SAME:  # a level is as near everywhere
            height = np.interp(np.log(across), np.log(x[real]), np.log(y[real]))
            room = np.minimum(room, np.abs(height - np.log(level * MIDDLE)))
    worst = [room[i - HALF : i + HALF + 1].min() for i in range(HALF, PLACES - HALF)]
    return float(across[HALF + int(np.argmax(worst))])


def write_labels(ax: Axes, labels: Sequence[Label], gap: float = 0.062) -> None:
    """Writes every label near its line's end, as near as ``gap`` (share of the height) allows.

    Those of lines above the axes' top, such as printed numbers of a faster card, end in an arrow.
    """
    to_axes = ax.transData + ax.transAxes.inverted()
    top = ax.get_ylim()[1]
    labels = [
        replace(label, text=f"{label.text} ↑", y=top, whole=False) if label.y > top else label
        for label in labels
    ]
    ends = [to_axes.transform((label.x, label.y)) for label in labels]
    heights = spread([float(end[1]) for end in ends], gap)
    for label, end, height in zip(labels, ends, heights, strict=True):
        style = label.style
        across: dict[str, Any] = {"transform": ax.transAxes, "clip_on": False}
        if label.whole:
            ax.plot(
                [end[0], LEADER], [end[1], height], color=style.color, lw=0.5, alpha=0.6, **across
            )
        if style.marker:
            face, edge = ("white", style.color) if label.hollow else (style.color, "white")
            ax.plot([MARK], [height], ls="", marker=style.marker, ms=style.size, mfc=face,
                    mec=edge, mew=0.8, **across)  # fmt: skip
        text = label.text if len(label.text) <= LONGEST else label.text[: LONGEST - 1] + "…"
        size = 8 * min(1.0, 18 / len(text))  # a name with its tunables still has to fit
        start = TEXT if style.marker else LEADER + 0.012
        ax.text(start, height, text, va="center", fontsize=size, color=style.text_color, **across)


def spread(heights: Sequence[float], gap: float) -> list[float]:
    """The nearest heights (least squares) in the same order that lie at least ``gap`` apart.

    They stay within 0 and 1 where they all fit. Heights less the gaps below them need only be
    non-decreasing, which is isotonic regression: neighbours out of order share their mean.
    """
    if not heights:
        return []
    order = np.argsort(heights, kind="stable")
    gaps = gap * np.arange(len(heights))
    room = max(0.0, 1 - gap * (len(heights) - 1))
    apart = np.empty(len(heights))
    apart[order] = np.clip(isotonic_regression(np.take(heights, order) - gaps).x, 0, room) + gaps
    return [float(height) for height in apart]
