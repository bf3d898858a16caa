"""Lines over a size: the variants, their bounds, and the numbers that the sources printed.

`LineFigure` is a figure of such lines; `draw_panel` draws one pair of its axes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator, PercentFormatter
from scipy.optimize import isotonic_regression

from analysis.figures.page import WIDTH, Canvas, Page, provenance
from analysis.figures.style import (
    BLUSH,
    DOT,
    FAINT,
    INK,
    MUTED,
    LineStyle,
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

LEFT, WIDE = 0.078, 0.567  # of the axes; labels stand right of them
ABOVE, BELOW, BETWEEN = 0.67, 0.81, 0.56  # inches above, below and between axes
ALONE, STACKED = 2.42, 1.85  # inches: the height of a panel
APART = 0.152  # inches: the least distance of two labels
LEADER, MARK, TEXT = 1.035, 1.055, 1.08  # where labels begin, in widths of the axes
LONGEST, ROOM = 34, 28  # characters of a label: the most, and the most at full size
DASHES = ("-", (0, (4, 1.5)), (0, (1, 1)), (0, (5, 1, 1, 1)))
DASHED, LEVEL_DASH = (0, (5, 2)), (0, (1.5, 1.5))
GBPS, ROOF_SHARE = "effective_gbps", "fraction_of_roof"
MARK_ALL = 16  # points a line may have before their markers hide it
MOST_LINES = 32  # a panel has no room for the names of more


@dataclass(frozen=True)
class Panel:
    """The content of one pair of axes over a size."""

    y: str  # the column drawn, such as ``time_us``
    label: str  # of the y axis
    scale: Literal["linear", "log"] = "linear"  # from 0; base 10
    series: str = ""  # a source's printed numbers drawn beside, such as ``a_fig2``
    levels: tuple[str, ...] = ()  # sources whose claims without a size are drawn as levels


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
    title: str  # its subject in a few words
    query: Query  # the rows it draws
    panels: tuple[Panel, ...]  # its axes, from the top
    note: str = ""  # a last line of small print on published numbers, where these are drawn
    caption: str = ""  # one sentence on its content, and on the source's figure it draws again
    source: str = ""  # the letter of that source, if any
    asks: str = ""  # the rows it needs, where `rows` picks them
    rows: Callable[[Inputs], list[Selection]] | None = None  # picks rows another way than `query`

    @property
    def needs(self) -> str:
        """The rows it cannot do without, in one line."""
        over, fixed = ("N", "M") if self.query.over == "cols" else ("M", "N")
        best = f"best {fixed} = {self.query.at} {self.query.dtype}"
        usual = f"timed {self.query.operation} rows of one {fixed} and dtype at two or more {over}"
        return f"{self.id} needs {self.asks or f'{usual}, {best}'}"

    def pages(self, inputs: Inputs) -> list[Page]:
        """A picture for each GPU whose rows allow it."""
        if self.rows is not None:
            return [self._page(shown) for shown in self.rows(inputs)]
        frame = inputs.main
        frame = frame[frame["rows"].gt(0) & frame["cols"].gt(0)]
        found = [select(frame, gpu, self.query) for gpu in sorted(frame["gpu"].unique())]
        return [
            self._page(shown)
            for shown in found
            if shown and all(shown.own[one.y].notna().any() for one in self.panels)
        ]

    def _page(self, shown: Selection) -> Page:
        fixed, card = "M" if shown.query.over == "cols" else "N", shown.card.name
        small = provenance(shown.recorded, card, shown.timer, shown.cache)
        if shown.own["above_roof"].any():
            small[-1] += f"{DOT}crossed out: faster than the roof, not a win"
        small += [self.note] if self.note and shown.exact else []

        count = len(self.panels)
        each = ALONE if count == 1 else STACKED
        height = ABOVE + BELOW + count * each + (count - 1) * BETWEEN

        def draw(canvas: Canvas) -> None:
            for below, panel in zip(reversed(range(count)), self.panels, strict=True):
                bottom = (BELOW + below * (each + BETWEEN)) / height
                ax = canvas.add_axes((LEFT, bottom, WIDE, each / height))
                size_axis(ax, shown.sizes, shown.query.over)
                write_labels(ax, draw_panel(ax, shown, panel), APART / each)
                if below:
                    ax.set_xlabel("")

        subtitle = DOT.join([card, shown.dtype, f"{fixed} = {shown.at}"])
        name, operation = f"{self.id}-{slug(shown.gpu)}", self.query.operation
        size = (WIDTH, height)
        return Page(name, self.title, subtitle, small, draw, size, shown.gpu, operation)


def draw_panel(ax: Axes, shown: Selection, panel: Panel) -> list[Label]:
    """Draws a panel on axes whose size axis is ready; returns the labels of its lines.

    Bandwidths start at 0 and are scaled to the rows: numbers that a source printed of a faster card
    do not squeeze them. Times span decades, so their axis is a logarithm that holds all of them but
    the datasheet's floor.
    """
    if panel.scale != "linear":
        ax.set_yscale("log")
    first, last = (_datasheet, _claims) if panel.y == GBPS else (_claims, _datasheet)
    labels = lines(ax, shown, panel.y) + _roofs(ax, shown, panel) + first(ax, shown, panel)
    if panel.y == ROOF_SHARE:  # the datasheet's peak is far above where launches bound the roof
        ax.set_ylim(0, max(1.25, 1.04 * float(np.nanmax(shown.own[panel.y]))))
    elif panel.scale == "linear":
        ax.set_ylim(0, None)
    else:
        ax.set_ylim(*ax.get_ylim())
    labels += last(ax, shown, panel)
    _shade_l2(ax, shown, 0.02 if panel.y == ROOF_SHARE else 0.87)
    value_axis(ax, panel.label)
    if panel.y == ROOF_SHARE:
        ax.yaxis.set_major_locator(MaxNLocator(8, steps=[1, 2, 5, 10]))
        ax.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    return labels


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
        sparse = None if valid.sum() <= MARK_ALL else 0.05  # lengths of the axes between markers
        look = style.dots(ls=dash, lw=1.4, color=style.color, mew=0.6)
        kept = np.where(above, np.nan, value)
        ax.plot(x, kept, label=variant, zorder=3, markevery=sparse, **look)
        low, high = (np.where(valid, end, np.nan) for end in _interval(line, y))
        ax.vlines(x, low, high, color=style.color, lw=1.0, zorder=2.5)
        if above.any():
            look = style.dots(hollow=True, mew=0.9)
            ax.plot(x[above], value[above], label="above roof", zorder=3.2, **look)
            ax.plot(x[above], value[above], "x", ms=3.2, mec=INK, mew=0.7, zorder=3.3)
        last = int(np.flatnonzero(valid)[-1])
        whole = last == len(x) - 1
        text = variant if whole else f"{variant}, to {size_label(x[last])}"
        labels.append(Label(text, x[last], value[last], style, whole=whole))
    return labels


def _interval(line: pd.DataFrame, y: str) -> tuple[pd.Series, pd.Series]:
    """The 95 % interval of ``y``: its own, or from the interval of the time."""
    if y == "time_us":
        return line["time_low_us"], line["time_high_us"]
    moved = line[y] * line["time_us"]
    return moved / line["time_high_us"], moved / line["time_low_us"]


def _line(
    ax: Axes, shown: Selection, values: pd.Series | float, text: str, color: str = INK, **line: Any
) -> list[Label]:
    """Draws a line without markers over all sizes, where it has values; returns its label."""
    known = pd.Series(values, shown.sizes) if isinstance(values, float) else values
    known = known.reindex(shown.sizes)
    look: dict[str, Any] = {"lw": 1.6, "zorder": 2.8, "label": text} | line
    ax.plot(known.index, known, color=color, **look)
    known = known.dropna()
    if known.empty:
        return []
    last = int(known.index[-1])
    style, whole = LineStyle(color, ""), last == shown.sizes[-1]
    return [Label(text, last, float(known.iloc[-1]), style, whole=whole)]


def _roofs(ax: Axes, shown: Selection, panel: Panel) -> list[Label]:
    """Draws the measured bound: the best of any kernel of the roof at the same shape."""
    roof = f"{shown.roof} roof"
    if panel.y == ROOF_SHARE:
        longest = shown.own["arithmetic_us"].notna().any()
        return _line(ax, shown, 1.0, "longest roof" if longest else roof)
    best = shown.roofs.groupby(shown.query.over)[panel.y]
    return _line(ax, shown, best.max() if panel.y == GBPS else best.min(), roof)


def _datasheet(ax: Axes, shown: Selection, panel: Panel) -> list[Label]:
    """Draws the datasheet's memory bandwidth, and shades times that are too short for it."""
    look: dict[str, Any] = {"color": MUTED, "lw": 1.0, "ls": DASHED, "zorder": 2}
    peak, moved = shown.card.peak_gbps, _moved(shown)
    if peak is None:
        return []
    text = f"datasheet {peak:,.0f} GB/s"
    if panel.y == GBPS:
        return _line(ax, shown, float(peak), text, **look)
    if panel.y == ROOF_SHARE and shown.own["arithmetic_us"].isna().all():
        share = peak / shown.own.groupby(shown.query.over)["roof_gbps"].max()
        return _line(ax, shown, share, text, **look)
    if panel.y != "time_us" or not moved:
        return []
    floor = moved * _sizes(shown) / peak / 1e3
    ax.fill_between(floor.index, floor, 1e-9, color=BLUSH, lw=0, zorder=0.1)
    write(ax, 0.985, 0.03, "faster than the card's memory", 6.5, ha="right")
    return _line(ax, shown, floor, text, **look)


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


def _claims(ax: Axes, shown: Selection, panel: Panel) -> list[Label]:
    """Draws the sources' printed series, and their claims of this dtype without a size.

    They compare with rows of their own shape and dtype alone.
    """
    if not shown.exact:
        return []
    labels = _printed(ax, shown, panel) if panel.series else []
    for letter in (one for one in panel.levels if sources()[one].dtype == shown.dtype):
        name, source = name_of(letter), sources()[letter]
        for one in source.levels:
            if one.quantity == panel.y:
                kernel = _as_run(shown, one.kernel)
                ends = f"–{one.high:,g}" if one.low < one.high else "+" * (one.of == "floor")
                text = f"{name}: {kernel} {one.low:,g}{ends}"
                labels += _level(ax, shown, kernel, one.low, one.high, text)
    return labels


def _as_run(shown: Selection, kernel: str) -> str:
    """C ran `hybrid` as `hybrid_whole`, which its numbers stand beside where rows hold it."""
    whole = kernel == "hybrid" and "hybrid_whole" in set(shown.points["kernel"])
    return "hybrid_whole" if whole else kernel


def _printed(ax: Axes, shown: Selection, panel: Panel) -> list[Label]:
    """Draws a source's own series: open markers on pale dashes, named after the source."""
    printed, letter, labels = series(panel.series), panel.series[0].upper(), []
    for kernel, values in printed.kernels.items():
        kernel = _as_run(shown, kernel)
        style, name = style_of(kernel), f"{name_of(letter)}: {kernel}"
        look = style.dots(hollow=True, mew=0.9, ls=(0, (3, 2)), color=style.color)
        ax.plot(printed.sizes, values, label=name, zorder=2.6, lw=0.9, alpha=0.75, **look)
        labels.append(Label(name, printed.sizes[-1], values[-1], style, hollow=True))
    return labels


def _level(
    ax: Axes, shown: Selection, kernel: str, low: float, high: float, text: str
) -> list[Label]:
    """Draws a level as a dotted line, or from ``low`` to ``high`` as a band between two."""
    color = style_of(kernel).color
    if low < high:
        ax.axhspan(low, high, color=color, alpha=0.13, lw=0, zorder=0.2, label=text)
    look: dict[str, Any] = {"lw": 1.0, "ls": LEVEL_DASH, "alpha": 0.8, "zorder": 2.2}
    labels = [_line(ax, shown, end, text, color, **look)[0] for end in {low, high}]
    return [replace(labels[0], y=(low + high) / 2)]


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
    across: dict[str, Any] = {"transform": ax.transAxes, "clip_on": False}
    for label, end, height in zip(labels, ends, heights, strict=True):
        style = label.style
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
