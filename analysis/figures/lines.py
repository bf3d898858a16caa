"""Lines over a size: what variants measured, what bounds them, what the sources printed of them.

`LineFigure` is a figure of such lines; `draw_panel` draws one pair of its axes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator, PercentFormatter
from scipy.optimize import isotonic_regression

from analysis.estimate import speedups
from analysis.figures.page import SIZE, Canvas, Page, provenance
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
    write,
)
from analysis.load import Inputs
from analysis.published import name_of, series, sources
from analysis.selection import Query, Selection, select
from experiments.data.cards import card_of

LEFT, BOTTOM, WIDE, HIGH = 0.078, 0.207, 0.567, 0.622  # of the axes; labels stand right of them
LEADER, MARK, TEXT = 1.035, 1.055, 1.08  # where labels begin, in widths of the axes
LONGEST, ROOM = 34, 28  # characters of a label: what fits legibly, and what fits at full size
DASHES = ("-", (0, (4, 1.5)), (0, (1, 1)), (0, (5, 1, 1, 1)))
DASHED, LEVEL_DASH = (0, (5, 2)), (0, (1.5, 1.5))
ROOF_SHARE, PEAK = "fraction_of_roof", "peak_bytes"
MARK_ALL = 16  # points a line may have before their markers hide it
MOST_LINES = 32  # a panel has no room for the names of more
SAME = 0.02  # a ratio this near 1 is drawn by the line of the variant compared with


@dataclass(frozen=True)
class Panel:
    """What one pair of axes shows over a size."""

    y: str  # the column drawn, such as ``time_us`` or `PEAK`, or ``speedup`` over a variant
    label: str  # of the y axis
    scale: Literal["linear", "log", "ratio"] = "linear"  # from 0; base 10; base 2 around 1
    over: tuple[str, ...] = ()  # speedups: rows are over the first, claims over any of these
    series: str = ""  # a source's printed numbers drawn beside, such as ``a_fig2``
    levels: tuple[str, ...] = ()  # sources whose claims without a size are drawn as levels
    card: str = ""  # a source whose own card's datasheet peak is drawn
    place: tuple[float, float] = (BOTTOM, HIGH)  # bottom and height, shares of the canvas
    gap: float = 0.062  # the least distance of two labels, in heights of the axes
    l2: float = 0.87  # of L2's caption: below the datasheet's peak, above what rises with the width


@dataclass(frozen=True)
class Label:
    """A line's name at its last point, (x, y), written in the right margin instead of a legend."""

    text: str
    x: float
    y: float
    style: LineStyle  # without a marker where the line has none
    hollow: bool = False  # whether the marker is drawn open
    whole: bool = True  # whether the line reaches the end of the axis; only then a leader joins


@dataclass(frozen=True)
class LineFigure:
    """A figure of lines over N or M: a picture for each GPU whose rows allow it."""

    id: str  # its file name, e.g. ``d_fig1``
    title: str  # what it shows, in a few words
    query: Query  # the rows it draws
    panels: tuple[Panel, ...]  # its axes, from the top
    note: str = ""  # a last line of small print on what is published, where that is drawn
    caption: str = ""  # one sentence: what it shows, and which source's figure it draws again
    size: tuple[float, float] = SIZE  # inches
    source: str = ""  # the letter of that source, if any
    x: str = ""  # of the x axis, where that is no row width and no number of rows

    @property
    def needs(self) -> str:
        """Which rows it cannot do without, in one line."""
        over, fixed = ("N", "M") if self.query.over == "cols" else ("M", "N")
        beside = [f", {panel.over[0]} among them" for panel in self.panels if panel.over]
        return (
            f"{self.id} needs timed {self.query.operation} rows of one {fixed} and dtype at two or "
            f"more {over}, best {fixed} = {self.query.at} {self.query.dtype}{''.join(beside)}"
        )

    def pages(self, inputs: Inputs) -> list[Page]:
        """A picture for each GPU whose rows allow it."""
        frame = inputs.main
        frame = frame[frame["rows"].gt(0) & frame["cols"].gt(0)]
        several = [select(frame, gpu, self.query) for gpu in sorted(frame["gpu"].unique())]
        return [self._page(shown) for shown in several
                if shown and all(_compared(shown, one).own[one.y].notna().any()
                                 for one in self.panels)]  # fmt: skip

    def _page(self, shown: Selection) -> Page:
        fixed, card = "M" if shown.query.over == "cols" else "N", shown.card.name
        small = provenance(shown.recorded, card, shown.timer, shown.cache)
        if shown.own["above_roof"].any():
            small[-1] += f"{DOT}crossed out: faster than the roof, not a win"
        small += [self.note] if self.note and shown.exact else []

        def draw(canvas: Canvas) -> None:
            for panel in self.panels:
                ax = canvas.add_axes((LEFT, panel.place[0], WIDE, panel.place[1]))
                size_axis(ax, shown.sizes, shown.query.over)
                write_labels(ax, draw_panel(ax, shown, panel), panel.gap)
                if self.x or panel is not self.panels[-1]:
                    ax.set_xlabel(self.x if panel is self.panels[-1] else "")

        subtitle = DOT.join([card, shown.dtype, f"{fixed} = {shown.at}"])
        return Page(f"{self.id}-{slug(shown.gpu)}", self.title, subtitle, small, draw, self.size,
                    shown.gpu, self.query.operation)  # fmt: skip


def draw_panel(ax: Axes, shown: Selection, panel: Panel) -> list[Label]:
    """Draws a panel on axes whose size axis is ready; returns the labels of its lines.

    Bandwidths start at 0 and are scaled to the rows: what a source printed of a faster card does
    not squeeze them. Times span decades, so their axis is a logarithm that holds all of them.
    """
    if panel.scale != "linear":
        ax.set_yscale("log", base=2 if panel.scale == "ratio" else 10)
    compared = _compared(shown, panel)
    labels = lines(ax, compared, panel.y) + _roofs(ax, shown, panel)
    if panel.y == "effective_gbps":
        labels += _datasheet(ax, shown, panel)
    if panel.scale == "linear" and not panel.over:
        ax.set_ylim(0, None)
    if panel.y == ROOF_SHARE:  # the datasheet peak is far above where launches bound the roof
        ax.set_ylim(0, max(1.25, 1.04 * float(np.nanmax(shown.own[panel.y]))))
    if shown.exact:  # what sources printed compares with rows of its shape and dtype alone
        labels += _printed(ax, shown, panel) + _levels(ax, shown, panel)
    if panel.y != "effective_gbps":
        labels += _datasheet(ax, shown, panel)
    if panel.scale == "ratio":
        ratio_axis(ax, panel.label)
        return labels + _predicted(ax, compared)
    if panel.over:
        ax.set_ylim(0, None)
    elif panel.y != PEAK:
        _shade_l2(ax, shown, 0.02 if panel.y == ROOF_SHARE else panel.l2)
    value_axis(ax, panel.label)
    if panel.y == ROOF_SHARE:
        ax.yaxis.set_major_locator(MaxNLocator(8, steps=[1, 2, 5, 10]))
        ax.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    if panel.y == PEAK:
        ax.yaxis.set_major_formatter(lambda value, _: f"{value / 1e9:g}")
        for line in ax.get_lines():  # markers at 0 stand half below the axis
            line.set_clip_on(False)
    return labels


def _compared(shown: Selection, panel: Panel) -> Selection:
    """What a panel draws: the points as they are, or over the base's."""
    return speedups(shown, panel.over[0]) if panel.over else shown


def lines(ax: Axes, shown: Selection, y: str) -> list[Label]:
    """Draws column ``y`` of every variant of the operation against a size; returns their labels.

    A line breaks where its variant has no valid time. The 95 % interval stands on every point.
    Points above the roof are taken out of the line, drawn open and crossed out.
    """
    own, x = shown.own, np.array(shown.sizes, dtype=float)
    labels, drawn = [], Counter[str]()
    for variant in sorted(own["variant"].unique(), key=variant_order)[:MOST_LINES]:
        line = own[own["variant"] == variant].set_index(shown.query.over).reindex(shown.sizes)
        value = line[y].where(line["status"] == "ok").to_numpy(dtype=float)
        valid = np.isfinite(value)
        if not valid.any():
            continue
        kernel = variant.split(" ")[0]
        style, dash = style_of(kernel), DASHES[drawn[kernel] % len(DASHES)]
        drawn[kernel] += 1
        above = line["above_roof"].eq(True).to_numpy()
        kept = np.where(above, np.nan, value)
        sparse = None if valid.sum() <= MARK_ALL else 0.05  # lengths of the axes between markers
        ax.plot(x, kept, label=variant, zorder=3, markevery=sparse,
                **style.dots(ls=dash, lw=1.4, color=style.color, mew=0.6))  # fmt: skip
        low, high = (np.where(valid, end, np.nan) for end in _interval(line, y))
        ax.vlines(x, low, high, color=style.color, lw=1.0, zorder=2.5)
        if above.any():
            ax.plot(x[above], value[above], label="above roof", zorder=3.2,
                    **style.dots(hollow=True, mew=0.9))  # fmt: skip
            ax.plot(x[above], value[above], "x", ms=3.2, mec=INK, mew=0.7, zorder=3.3)
        last = int(np.flatnonzero(valid)[-1])
        whole = last == len(x) - 1
        text = variant if whole else f"{variant}, to {size_label(x[last])}"
        labels.append(Label(text, x[last], value[last], style, whole=whole))
    return labels


def _interval(line: pd.DataFrame, y: str) -> tuple[pd.Series, pd.Series]:
    """The 95 % interval of ``y``: its own, or that of a time or what is inverse to the time."""
    if f"{y}_low" in line:
        return line[f"{y}_low"], line[f"{y}_high"]
    if y == "time_us":
        return line["time_low_us"], line["time_high_us"]
    if y == PEAK:  # the same in every call
        return line[y], line[y]
    moved = line[y] * line["time_us"]
    return moved / line["time_high_us"], moved / line["time_low_us"]


def _bound(ax: Axes, shown: Selection, values: pd.Series | float, text: str, color: str = INK,
           **line: Any) -> list[Label]:  # fmt: skip
    """Draws a line without markers over all sizes, where it has values; returns its label."""
    series = pd.Series(values, shown.sizes) if isinstance(values, float) else values
    series = series.reindex(shown.sizes)
    known = series.dropna()
    if known.empty:
        return []
    line = {"lw": 1.6, "zorder": 2.8, "label": text, **line}
    ax.plot(series.index, series, color=color, **line)
    last = int(known.index[-1])
    whole = last == shown.sizes[-1]
    return [Label(text, last, float(known.iloc[-1]), LineStyle(color, ""), whole=whole)]


def _roofs(ax: Axes, shown: Selection, panel: Panel) -> list[Label]:
    """Draws what was measured beside the variants and bounds them.

    It is the best that any kernel of the roof reached at the same shape, and of times also the
    least that the operation's arithmetic takes; of memory it is one matrix, the gradient's own.
    """
    roof, over = f"{shown.roof} roof", shown.query.over
    if panel.over:
        return _bound(ax, shown, 1.0, f"{panel.over[0]} = 1", lw=1.2, zorder=2.4)
    if panel.y == ROOF_SHARE:
        longest = shown.own["arithmetic_us"].notna().any()
        return _bound(ax, shown, 1.0, "longest roof" if longest else roof)
    if panel.y == PEAK:
        matrix = shown.at * shown.item_bytes * _sizes(shown)
        return _bound(ax, shown, matrix, "one M×N matrix")
    of_roof = shown.roofs.groupby(over)[panel.y]
    if panel.y != "time_us":
        return _bound(ax, shown, of_roof.max(), roof)
    arithmetic = shown.own.groupby(over)["arithmetic_us"].min()
    return [*_bound(ax, shown, of_roof.min(), roof),
            *_bound(ax, shown, arithmetic, "arithmetic roof", ls=DASHED)]  # fmt: skip


def _datasheet(ax: Axes, shown: Selection, panel: Panel) -> list[Label]:
    """Draws what the datasheet's memory bandwidth allows, and shades times that it does not."""
    line: dict[str, Any] = {"color": MUTED, "lw": 1.0, "ls": DASHED, "zorder": 2}
    peak, moved = shown.card.peak_gbps, _moved(shown)
    labels: list[Label] = []
    if panel.card and shown.exact and (card := card_of(sources()[panel.card].card or "")).peak_gbps:
        text = f"card of {name_of(panel.card)}, {card.peak_gbps:,.0f}"
        labels = _bound(ax, shown, float(card.peak_gbps), text, **line | {"ls": LEVEL_DASH})
    if peak is None or panel.over:
        return labels
    text = f"datasheet {peak:,.0f} GB/s"
    if panel.y == "effective_gbps":
        labels += _bound(ax, shown, float(peak), text, **line)
    elif panel.y == ROOF_SHARE and shown.own["arithmetic_us"].isna().all():
        share = peak / shown.own.groupby(shown.query.over)["roof_gbps"].max()
        labels += _bound(ax, shown, share, text, **line)
    elif panel.y == "time_us" and moved:
        floor, low = moved * _sizes(shown) / peak / 1e3, ax.get_ylim()
        labels += _bound(ax, shown, floor, text, **line)
        ax.fill_between(floor.index, floor, 1e-9, color=BLUSH, lw=0, zorder=0.1)
        ax.set_ylim(*low)
        write(ax, 0.985, 0.03, "faster than the card's memory", 6.5, ha="right")
    return labels


def _moved(shown: Selection) -> int:
    """The bytes that have to be moved for each unit of the size, 0 where rows do not say."""
    known = shown.own["compulsory_bytes"].gt(0).any()
    return shown.passes * shown.at * shown.item_bytes if known else 0


def _sizes(shown: Selection) -> pd.Series:
    return pd.Series(shown.sizes, shown.sizes, dtype=float)


def _shade_l2(ax: Axes, shown: Selection, height: float) -> None:
    """Shades the sizes at which inputs and outputs fit in the card's L2 together."""
    size, each = shown.card.l2_bytes, _moved(shown)
    if size is None or not each or size / each < shown.sizes[0]:
        return
    left, right = ax.get_xlim()
    edge = min(size / each, right)
    ax.axvspan(left, edge, color=FAINT, alpha=0.7, lw=0, zorder=0, label="fits in L2")
    moved = f"{shown.passes if shown.passes > 1 else ''}MN"
    write(ax, 0.012, height, f"{moved} fits in L2 ({size / 2**20:g} MiB)", 6.5, va="bottom")


def _as_run(shown: Selection, kernel: str) -> str:
    """C's numbers of `hybrid` are of `hybrid_whole`, where rows hold it: so C ran it."""
    whole = kernel == "hybrid" and "hybrid_whole" in set(shown.points["kernel"])
    return "hybrid_whole" if whole else kernel


def _printed(ax: Axes, shown: Selection, panel: Panel) -> list[Label]:
    """Draws a source's own series: open markers on pale dashes, named after the source."""
    if not panel.series:
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
        style, name = style_of(kernel), f"{name_of(letter)}: {kernel}"
        ax.plot(printed.sizes, values, label=name, zorder=2.6, lw=0.9, alpha=0.75,
                **style.dots(hollow=True, mew=0.9, ls=(0, (3, 2)), color=style.color))  # fmt: skip
        labels.append(Label(name, printed.sizes[-1], values[-1], style, hollow=True))
    return labels


def _levels(ax: Axes, shown: Selection, panel: Panel) -> list[Label]:
    """Draws what sources claim of this dtype without a size."""
    labels = []
    for letter in (one for one in panel.levels if sources()[one].dtype == shown.dtype):
        for ratio in sources()[letter].ratios if panel.over else ():
            if ratio.over in panel.over:
                text = f"{name_of(letter)}: {ratio.label}"
                labels.append(_level(ax, shown, ratio.kernel, ratio.low, ratio.high, text))
        for level in () if panel.over else sources()[letter].levels:
            if level.quantity == panel.y:
                kernel, low, high = _as_run(shown, level.kernel), level.low, level.high
                ends = f"–{high:,g}" if low < high else "+" * (level.of == "floor")
                text = f"{name_of(letter)}: {kernel} {low:,g}{ends}"
                labels.append(_level(ax, shown, kernel, low, high, text))
    return labels


def _level(ax: Axes, shown: Selection, kernel: str, low: float, high: float, text: str) -> Label:
    """Draws a level as a dotted line, or from ``low`` to ``high`` as a band between two."""
    color = style_of(kernel).color
    if low < high:
        ax.axhspan(low, high, color=color, alpha=0.13, lw=0, zorder=0.2, label=text)
    for end in {low, high}:
        [label] = _bound(ax, shown, end, text, color, lw=1.0, ls=LEVEL_DASH, alpha=0.8, zorder=2.2)
    return replace(label, y=(low + high) / 2)


def _predicted(ax: Axes, compared: Selection) -> list[Label]:
    """Draws the ratios of the models' bytes, one quiet line for all variants that share a model."""
    simple = compared.points[~compared.points["model_formula"].str.contains(" if ", na=True)]
    line: dict[str, Any] = {"lw": 0.8, "ls": (0, (1, 2)), "zorder": 1}
    labels: list[Label] = []
    for formula, alike in simple.groupby("model_formula"):
        ratios = alike.groupby(compared.query.over)["traffic_ratio"].first().dropna()
        if len(ratios) and abs(ratios.iloc[-1] - 1) > SAME:
            labels += _bound(ax, compared, ratios, f"{formula} by traffic", MUTED, **line)
    return labels


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
            leader = [end[0], LEADER], [end[1], height]
            ax.plot(*leader, color=style.color, lw=0.5, alpha=0.6, **across)
        if style.marker:
            ax.plot([MARK], [height], **style.dots(hollow=label.hollow, mew=0.8), **across)
        text = label.text if len(label.text) <= LONGEST else label.text[: LONGEST - 1] + "…"
        size = 8 * min(1.0, ROOM / len(text))  # a name with its tunables still has to fit
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
