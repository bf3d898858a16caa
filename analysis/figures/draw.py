"""Lines over a size: what variants measured, what bounds them, what the sources printed of them.

`LineFigure` is a figure of such lines, and `draw_panel` is the one function that draws them. The
parts it is made of are here as well, for pictures of another kind that need some of them.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator, PercentFormatter
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
    named_axis,
    ratio_axis,
    size_axis,
    size_label,
    slug,
    style_of,
    value_axis,
    variant_order,
    write,
)
from analysis.load import Records
from analysis.published import name_of, series, sources
from analysis.selection import Query, Selection, records_of, select
from experiments.data.cards import Card, card_of
from experiments.data.jobs import named_widths

LEFT, BOTTOM, WIDE, HIGH = 0.078, 0.207, 0.567, 0.622  # of the axes; labels stand right of them
LEADER, MARK, TEXT = 1.035, 1.055, 1.08  # where labels begin, in widths of the axes
LONGEST, ROOM = 34, 28  # characters of a label: what fits legibly, and what fits at full size
DASHES = ("-", (0, (4, 1.5)), (0, (1, 1)), (0, (5, 1, 1, 1)))
DASHED = (0, (5, 2))
ROOF_SHARE = "fraction_of_roof"
PEAK = "peak_bytes"
HIGHEST_SHARE = 1.25  # the datasheet peak is far above where launches bound the roof as well
LEVEL_DASH = (0, (1.5, 1.5))
MARK_ALL = 16  # points a line may have before their markers hide it
SAME = 0.02  # a ratio this near 1 is drawn by the line of the variant compared with
PLACES, HALF = 49, 4  # where words may stand along a level, and half their length in places
MIDDLE = 1.035  # how far above a level the middle of words on it is


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


def draw_panel(ax: Axes, shown: Selection, panel: Panel) -> list[Label]:
    """Draws a panel on axes whose size axis is ready; returns the labels of its lines.

    Bandwidths start at 0 and are scaled to the rows: what a source printed of a faster card does
    not squeeze them. Times span decades, so their axis is a logarithm that holds all of them.
    """
    if panel.scale != "linear":
        ax.set_yscale("log", base=2 if panel.scale == "ratio" else 10)
    compared = speedups(shown, panel.over[0]) if panel.over else shown
    labels = lines(ax, compared, panel.y)
    if panel.y == ROOF_SHARE:
        return labels + _share(ax, shown, panel)
    if panel.y == PEAK:
        return labels + _buffer(ax, shown, panel)
    if panel.over:
        base = panel.over[0]
        labels.append(_across(ax, shown, 1, f"{base} = 1", INK, lw=1.2, zorder=2.4, label=base))
    else:
        labels += roof(ax, shown, panel.y)
    if panel.y == "effective_gbps":
        labels += _peak(ax, shown, shown.card, "datasheet", label="datasheet peak", ls=DASHED)
    if panel.scale == "linear" and not panel.over:
        ax.set_ylim(0, None)
    if shown.exact:  # what sources printed compares with rows of its shape and dtype alone
        labels += _printed(ax, shown, panel) + _levels(ax, shown, panel)
    if panel.card and shown.exact:
        card = card_of(sources()[panel.card].card or "")
        name = f"card of {name_of(panel.card)},"
        labels += _peak(ax, shown, card, name, label=name, ls=LEVEL_DASH)
    if panel.y == "time_us":
        labels += _datasheet_floor(ax, shown)
    if panel.scale == "ratio":
        _predicted(ax, compared)
        ratio_axis(ax, panel.label)
        return labels
    if panel.over:
        ax.set_ylim(0, None)
    else:
        shade_l2(ax, shown, panel.l2)
    value_axis(ax, panel.label)
    return labels


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

    @property
    def needs(self) -> str:
        """Which rows it cannot do without, in one line."""
        over, fixed = ("N", "M") if self.query.over == "cols" else ("M", "N")
        beside = [f"{panel.over[0]} among them" for panel in self.panels if panel.over]
        beside += ["its roof's beside them" for panel in self.panels if panel.y == ROOF_SHARE]
        return ", ".join([
            f"{self.id} needs timed {self.query.operation} rows of one {fixed} and dtype at two "
            f"or more {over}",
            f"best {fixed} = {self.query.at} {self.query.dtype}", *dict.fromkeys(beside),
        ])  # fmt: skip

    def pages(self, records: Records, frame: pd.DataFrame) -> list[Page]:
        """A picture for each GPU whose rows allow it."""
        several = [select(frame, gpu, self.query) for gpu in sorted(frame["gpu"].unique())]
        return [self._page(shown) for shown in several if shown and self._drawable(shown)]

    def _drawable(self, shown: Selection) -> bool:
        return all(
            comparable(panel.over[0])(shown) if panel.over else shown.own[panel.y].notna().any()
            for panel in self.panels
        )

    def _page(self, shown: Selection) -> Page:
        fixed, card = "M" if shown.query.over == "cols" else "N", shown.card.name
        small = provenance(shown.recorded, card, shown.timer, shown.cache, flagged(shown))
        small += [self.note] if self.note and shown.exact else []
        known = named_widths() if shown.query.over == "cols" else {}
        names = {n: known[n] for n in shown.sizes if n in known}

        def draw(canvas: Canvas) -> None:
            for panel in self.panels:
                ax = canvas.add_axes((LEFT, panel.place[0], WIDE, panel.place[1]))
                if len(names) == len(shown.sizes):
                    named_axis(ax, names, texts=panel is self.panels[-1])
                else:
                    size_axis(ax, shown.sizes, shown.query.over)
                write_labels(ax, draw_panel(ax, shown, panel), panel.gap)
                if panel is not self.panels[-1]:
                    ax.set_xlabel("")

        subtitle = DOT.join([card, shown.dtype, f"{fixed} = {shown.at}"])
        name = f"{self.id}-{slug(shown.gpu)}"
        return Page(name, self.title, subtitle, small, draw, self.size, shown.gpu)


def flagged(*several: Selection) -> list[str]:
    """The remark on points that are crossed out, where there are any."""
    roofs = [shown.roof for shown in several if shown.own["above_roof"].eq(True).any()]
    return [f"crossed out: faster than the {roof} roof, not a win" for roof in roofs[:1]]


def lines(ax: Axes, shown: Selection, y: str) -> list[Label]:
    """Draws column ``y`` of every variant of the operation against a size; returns their labels.

    A line breaks where its variant has no valid time. The 95 % interval stands on every point.
    Points above the roof are taken out of the line, drawn open and crossed out.
    """
    own, x = shown.own, np.array(shown.sizes, dtype=float)
    labels, drawn, rows = [], Counter[str](), records_of(own)
    for variant in sorted(own["variant"].unique(), key=variant_order):
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
        ax.plot(x, kept, label=variant, zorder=3, markevery=_marked(x, kept), gid=_gid(variant),
                **style.dots(ls=dash, lw=1.4, color=style.color, mew=0.6))  # fmt: skip
        known = {row[shown.query.over]: row for row in rows if row["variant"] == variant}
        mark(ax, x, value, [known.get(size, {}) for size in shown.sizes])
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


def _gid(variant: str) -> str:
    """What a drawn file calls the line of a variant's rows."""
    return "rows:" + re.sub(r"[^\w.=-]", "_", variant)


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


def _marked(x: np.ndarray, y: np.ndarray) -> list[int]:
    """Which points carry a marker: where they are many, one each half octave and any lone one."""
    real: list[int] = np.flatnonzero(np.isfinite(y)).tolist()
    if len(real) <= MARK_ALL:
        return real
    places, marked, reached = set(real), list[int](), -math.inf
    for i in real:
        if places.isdisjoint((i - 1, i + 1)) or math.log2(x[i]) - reached >= 0.499:
            marked.append(i)
            reached = math.log2(x[i])
    return marked


def roof(ax: Axes, shown: Selection, y: str) -> list[Label]:
    """Draws the measured roof: the best that any kernel of it reached at the same shape."""
    of_roof = shown.roofs.groupby(shown.query.over)[y]
    best = (of_roof.min() if y == "time_us" else of_roof.max()).reindex(shown.sizes)
    if best.isna().all():
        return []
    name = f"{shown.roof} roof"
    ax.plot(shown.sizes, best.to_numpy(), color=INK, lw=1.6, label=name, zorder=2.8)
    last = best.dropna().index[-1]
    whole = last == shown.sizes[-1]
    return [Label(name, last, best[last], LineStyle(INK, ""), whole=whole)]


def _share(ax: Axes, shown: Selection, panel: Panel) -> list[Label]:
    """Shares of the roof from 0; 100 % is its fastest kernel at the same shape, beside it."""
    labels = [_across(ax, shown, 1, f"{shown.roof} roof", INK, lw=1.6, zorder=2.8)]
    own = shown.own
    if shown.card.peak_gbps is not None:
        roofs = own.groupby(shown.query.over)["roof_gbps"].max().reindex(shown.sizes)
        peak = (shown.card.peak_gbps / roofs).dropna()
        ax.plot(peak.index, peak, color=MUTED, lw=1.0, ls=DASHED, label="datasheet peak", zorder=2)
        text = f"datasheet {shown.card.peak_gbps:,.0f} GB/s"
        labels.append(Label(text, peak.index[-1], peak.iloc[-1], LineStyle(MUTED, "")))
    ax.set_ylim(0, max(HIGHEST_SHARE, 1.04 * float(np.nanmax(own[panel.y]))))
    shade_l2(ax, shown, 0.02)
    value_axis(ax, panel.label)
    ax.yaxis.set_major_locator(MaxNLocator(8, steps=[1, 2, 5, 10]))
    ax.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    return labels


def _buffer(ax: Axes, shown: Selection, panel: Panel) -> list[Label]:
    """Bytes from 0, beside those of one matrix M×N: what a gradient of its own takes."""
    sizes = np.array(shown.sizes)
    matrix = shown.at * sizes * shown.item_bytes
    ax.plot(sizes, matrix, color=INK, lw=1.6, label="one M×N matrix", zorder=2.8)
    ax.set_ylim(0, None)
    value_axis(ax, panel.label)
    ax.yaxis.set_major_formatter(lambda value, _: f"{value / 1e9:g}")
    for line in ax.get_lines():  # markers at 0 stand half below the axis
        line.set_clip_on(False)
    return [Label("one M×N matrix", sizes[-1], float(matrix[-1]), LineStyle(INK, ""))]


def _peak(ax: Axes, shown: Selection, card: Card, name: str, **line: Any) -> list[Label]:
    """Draws a card's datasheet bandwidth, GB/s, where it is known."""
    if card.peak_gbps is None:
        return []
    text = f"{name} {card.peak_gbps:,.0f}"
    return [_across(ax, shown, card.peak_gbps, text, MUTED, lw=1.0, zorder=2, **line)]


def _datasheet_floor(ax: Axes, shown: Selection) -> list[Label]:
    """Draws the least time, µs, in which the datasheet's memory moves the matrices; shades it."""
    ax.set_ylim(*ax.get_ylim())
    peak = shown.card.peak_gbps
    if peak is None:
        return []
    ends = np.array([*ax.get_xlim(), shown.sizes[-1]])
    floor = shown.passes * shown.at * ends * shown.item_bytes / peak / 1e3
    ax.plot(ends[:2], floor[:2], color=MUTED, lw=1.0, ls=DASHED, label="datasheet floor", zorder=2)
    ax.fill_between(ends[:2], floor[:2], 1e-9, color=BLUSH, lw=0, zorder=0.1)
    write(ax, 0.985, 0.03, "faster than the card's memory", 6.5, ha="right")
    text = f"datasheet {peak:,.0f} GB/s"
    return [Label(text, shown.sizes[-1], float(floor[2]), LineStyle(MUTED, ""))]


def shade_l2(ax: Axes, shown: Selection, height: float = 0.02, caption: str = "") -> None:
    """Shades the sizes at which inputs and outputs fit in the card's L2 together.

    The ``caption``, by default the cache's size, stands at ``height``, a share of the axes.
    """
    size = shown.card.l2_bytes
    left, right = ax.get_xlim()
    if (
        size is None
        or (edge := size / (shown.passes * shown.at * shown.item_bytes)) < shown.sizes[0]
    ):
        return
    ax.axvspan(left, min(edge, right), color=FAINT, alpha=0.7, lw=0, zorder=0, label="fits in L2")
    text = caption or f"{shown.formula} fits in L2 ({size / 2**20:g} MiB)"
    write(ax, 0.012, height, text, 6.5, va="bottom")


def _across(ax: Axes, shown: Selection, y: float, text: str, color: str, **line: Any) -> Label:
    """Draws a line at ``y`` over all sizes; returns its label."""
    ax.axhline(y, color=color, **line)
    return Label(text, shown.sizes[-1], y, LineStyle(color, ""))


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
    alike = [letter for letter in panel.levels if sources()[letter].dtype == shown.dtype]
    for letter in alike:
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
    """Draws a level as a dashed line, or from ``low`` to ``high`` as a band."""
    color = style_of(kernel).color
    if low == high:
        return _across(ax, shown, low, text, color, lw=1.1, ls=LEVEL_DASH, alpha=0.9, zorder=2.2,
                       label=text)  # fmt: skip
    ax.axhspan(low, high, color=color, alpha=0.13, lw=0, zorder=0.2, label=text)
    for end in (low, high):
        if _drawn(ax, end):
            continue
        ax.axhline(end, color=color, lw=0.7, ls=LEVEL_DASH, alpha=0.8, zorder=2.2)
    return Label(text, shown.sizes[-1], (low + high) / 2, LineStyle(color, ""))


def _drawn(ax: Axes, level: float) -> bool:
    """Whether a line across the axes stands at this level already."""
    heights = [np.asarray(line.get_ydata(), dtype=float) for line in ax.get_lines()]
    flat = [y for y in heights if y.size > 1 and np.ptp(y) == 0]
    return any(abs(y[0] - level) <= SAME * level for y in flat)


def _predicted(ax: Axes, compared: Selection) -> None:
    """Draws the ratios of the models' bytes, one quiet line for all variants that share a model."""
    simple = compared.points[~compared.points["model_formula"].str.contains(" if ", na=True)]
    for formula, alike in simple.groupby("model_formula"):
        by_size = alike.groupby(compared.query.over)["traffic_ratio"].first().dropna()
        if by_size.empty or abs(by_size.iloc[-1] - 1) < SAME:
            continue
        last = float(by_size.iloc[-1])
        if not _drawn(ax, last):
            ax.plot(by_size.index, by_size, color=MUTED, lw=0.8, ls=(0, (1, 2)), zorder=1)
        ax.text(_clear(ax, last), last, f"{formula} by traffic", fontsize=6, color=MUTED,
                va="bottom", ha="center", zorder=1.1)  # fmt: skip


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
