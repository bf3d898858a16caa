"""Limits: each shape's share of the roof, and the best peer's time over that of `auto`.

Softmax comes first, then every other operation that has an `auto` beside a peer; widths that `auto`
was tuned on have pages of their own, apart from those held out. `limits` has a page per dtype with
a line per shape; `limits_ratio` shows every point's ratio against the bytes it moves; `headline`
has the bandwidths of QuACK's benchmark. What lies beyond an axis stands at its end with its number
beside the axis, or is counted in the small print.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import groupby
from typing import Any

import pandas as pd
from matplotlib.axes import Axes

from analysis.estimate import Estimate
from analysis.figures.draw import BOTTOM, DASHED, HIGH, LEFT, WIDE, Label, write_labels
from analysis.figures.page import Canvas, Figure, Page, mark, provenance
from analysis.figures.specs import BANDWIDTH
from analysis.figures.style import (
    BLUSH,
    DOT,
    FAINT,
    INK,
    MUTED,
    LineStyle,
    marker_legend,
    size_axis,
    size_label,
    slug,
    style_of,
    ticks,
    value_axis,
    within,
    write,
)
from analysis.limits import (
    LARGE_BYTES,
    NEEDS,
    OWN,
    PEERS,
    SHORT_US,
    LimitPoint,
    geomean,
    groups_of,
    operations_of,
    peer_order,
    points_of,
)
from analysis.load import Records
from analysis.published import OPERATION
from analysis.selection import timer_label
from experiments.data.cards import card_of
from experiments.data.jobs import named_grids, named_widths
from experiments.data.rows import ITEM_BYTES

WIDTH, LINE = 7.2, 0.133  # inches: of a page, and of a shape
ABOVE, BELOW = 1.16, 0.62  # inches that titles and small print take
# Left end and width of the panels, shares of the width; numbers stand in the gaps beside them.
SHARE_PLACE, RATIO_PLACE = (0.172, 0.375), (0.603, 0.345)
NAMES = (0.02, 0.135)  # left end of M and right end of N
FOR_LABELS = 1.05  # inches that a page is wider by where widths have names
TITLE = 52  # characters of a panel's title that fit at full size
SHARES = (40.0, 112.0)  # percent
RATIOS = (0.88, 2.5)
SHARE_TICKS, RATIO_TICKS = (40, 50, 60, 70, 80, 90, 100), (0.9, 1, 1.1, 1.25, 1.5, 2, 2.5)
# limits_ratio: its axis holds all that is there, up to ends that no number worth reading is beyond.
WIDEST, COARSE = (0.5, 8.0), (0.5, 0.75, 0.9, 1, 1.25, 1.5, 2, 3, 4, 6, 8)
FINE = (0.5, 0.6, 0.7, 0.8, 0.9, 1, 1.1, 1.2, 1.3, 1.4, 1.5, 1.75, 2)
UNITS = ((1e9, "GB"), (1e6, "MB"), (1e3, "KB"), (1, "B"))
HEADLINE_DTYPES = ("bfloat16", "float16", "float32")  # the first that there are points of
HEADLINE_LEAST = 3  # widths, fewer are no line
HALO = "#bfc4cc"  # the copy's line, broad, below those that lie on it
MAKERS = {
    "auto": "auto, this project's",
    "torch": "torch.softmax",
    "compiled": "torch.compile",
    "compiled_softmax": "torch.compile of torch's",
    "compiled_max": "torch.compile, max-autotune",
    "liger": "Liger-Kernel",
    "flag_gems": "FlagGems",
    "quack": "QuACK",
    "helion": "Helion",
}
Points = Sequence[LimitPoint]
Heights = dict[tuple[int, int], float]  # where each shape stands


def _draw_shapes(canvas: Canvas, points: Points, heights: Heights) -> None:
    """Shares of the copy roof, and beside them ratios to the best peer."""
    width, height = canvas.get_size_inches()
    bottom, tall = BELOW / height, 1 - (ABOVE + BELOW) / height
    more = width - WIDTH
    shares, ratios = (
        canvas.add_axes(((left * WIDTH + more) / width, bottom, wide * WIDTH / width, tall))
        for left, wide in (SHARE_PLACE, RATIO_PLACE)
    )
    for ax in (shares, ratios):
        _ground(ax, heights, points)
    compared = [(heights[p.rows, p.cols], p, p.ratio(p.best)) for p in points]
    _draw_share_panel(shares, compared)
    _draw_ratio_panel(ratios, compared)
    before, labels = 0, named_widths()
    for (m, n), y in heights.items():
        at: dict[str, Any] = {
            "transform": shares.get_yaxis_transform(),
            "fontsize": 7,
            "va": "center",
        }
        left, right = ((x - SHARE_PLACE[0]) / SHARE_PLACE[1] for x in NAMES)
        left -= more / SHARE_PLACE[1] / WIDTH
        plain = points[0].operation != OPERATION  # a vocabulary of 256000 is no 250K to anyone
        shares.text(right, y, str(n) if plain else size_label(n), ha="right", **at)
        if more:
            beside: dict[str, Any] = {"xytext": (-33, 0), "textcoords": "offset points"}
            shares.annotate(labels.get(n, ""), (right, y), xycoords=at["transform"], fontsize=6.2,
                            ha="right", va="center", color=MUTED, **beside)  # fmt: skip
        if m != before:
            shares.text(left, y, f"{m:,} ×", fontweight="bold", **at)
        before = m
    _legend(canvas, points, [points[0].own])


def _heights(points: Points) -> Heights:
    """Where each shape stands, from 0 downwards; those of one M together."""
    heights: Heights = {}
    y, shapes = 0.0, sorted({(p.rows, p.cols) for p in points})
    for _, alike in groupby(shapes, key=lambda shape: shape[0]):
        y -= 0.6 if heights else 0.0
        for shape in alike:
            heights[shape] = y
            y -= 1.0
    return heights


def _ground(ax: Axes, heights: Heights, points: Points) -> None:
    """Faint lines to follow, a shade behind the short points."""
    ax.set_ylim(min(heights.values()) - 0.8, 0.8)
    ax.set_yticks([])
    ax.spines[:].set_visible(False)
    ax.hlines(list(heights.values()), 0, 1, transform=ax.get_yaxis_transform(), color=FAINT,
              lw=0.5, zorder=0.5)  # fmt: skip
    for y in (heights[p.rows, p.cols] for p in points if p.short):
        ax.axhspan(y - 0.5, y + 0.5, color=FAINT, alpha=0.75, lw=0, zorder=0)
    ax.tick_params(axis="x", labelsize=7, length=2, pad=1.5, top=True, labeltop=True)


def _draw_share_panel(ax: Axes, points: Sequence[tuple[float, LimitPoint, Estimate]]) -> None:
    """Percent; the roof's line at 100."""
    ax.set_xlim(*SHARES)
    ax.axvline(100, color=INK, lw=0.9, zorder=1)
    for y, point, ratio in points:
        share = point.share
        assert share is not None
        own, peer = 100 * share.value, 100 * share.value / ratio.value
        ends = [within(end, SHARES) for end in (own, peer)]
        ax.plot(ends, [y, y], color=MUTED, lw=0.6, alpha=0.6, zorder=1.5)
        if SHARES[0] <= peer <= SHARES[1]:
            _dot(ax, peer, y, point, point.best, small=True)
        low, high = (within(100 * end, SHARES) for end in (share.low, share.high))
        ax.hlines(y, low, high, color=style_of(point.own).color, lw=1.1, zorder=2)
        _placed(ax, own, y, SHARES, point, point.own, f"{own:.0f}")
    ticks(ax.xaxis, SHARE_TICKS, lambda value: f"{value:g}")
    _title(ax, f"share of the {_roof(points[0][1])}, % (higher is better)")


def _roof(point: LimitPoint) -> str:
    """What the share is of: the roof that only moves, or of several the one that takes longest."""
    return "longest roof" if point.by_arithmetic else f"{point.roof_name} roof"


def _draw_ratio_panel(ax: Axes, points: Sequence[tuple[float, LimitPoint, Estimate]]) -> None:
    """Twice as fast stands as far from 1 as half as fast; slower than a peer is shaded."""
    ax.set_xscale("log", base=2)
    ax.set_xlim(*RATIOS)
    ax.axvspan(RATIOS[0], 1, color=BLUSH, lw=0, zorder=0.1)
    ax.axvline(1, color=INK, lw=0.9, zorder=1)
    for y, point, ratio in points:
        low, high = (within(end, RATIOS) for end in (ratio.low, ratio.high))
        ax.hlines(y, low, high, color=style_of(point.best).color, lw=1.1, zorder=2)
        _placed(ax, ratio.value, y, RATIOS, point, point.best, f"{ratio.value:.3g}")
    ticks(ax.xaxis, RATIO_TICKS, lambda value: f"{value:g}")
    text = f"best peer's time / {points[0][1].own}'s (higher is better)"
    _title(ax, text, 7.5 * min(1, TITLE / len(text)))


def _title(ax: Axes, text: str, size: float = 7.5) -> None:
    ax.annotate(text, (0, 1), xytext=(0, 14), xycoords="axes fraction", fontsize=size, color=MUTED,
                textcoords="offset points")  # fmt: skip


def _draw_ratios(canvas: Canvas, points: Points, ends: tuple[float, float]) -> None:
    """A panel per dtype. Both axes are logarithms: a ratio is as far from 1 as its inverse."""
    dtypes = [d for d in ITEM_BYTES if any(p.dtype == d for p in points)]
    each = 0.915 / len(dtypes)
    for i, dtype in enumerate(dtypes):
        ax = canvas.add_axes((0.07 + i * each, 0.235, each - 0.018, 0.475))
        ax.set_xscale("log", base=10)
        ax.set_yscale("log", base=2)
        ax.set_ylim(*ends)
        ax.axhspan(ends[0], 1, color=BLUSH, lw=0, zorder=0.1)
        ax.axhline(1, color=INK, lw=0.9, zorder=1)
        ax.axvline(LARGE_BYTES, color=MUTED, lw=0.7, ls=(0, (2, 2)), zorder=0.6)
        for point in (p for p in points if p.dtype == dtype):
            ratio, color = point.ratio(point.best), style_of(point.best).color
            low, high, value = (within(end, ends) for end in (ratio.low, ratio.high, ratio.value))
            ax.vlines(point.moved_bytes, low, high, color=color, lw=0.9, zorder=2)
            hollow = point.above_roof
            _dot(ax, point.moved_bytes, value, point, point.best, small=True, hollow=hollow)
        value_axis(ax, "")
        places = FINE if ends[1] <= FINE[-1] else COARSE
        ticks(ax.yaxis, [p for p in places if ends[0] <= p <= ends[1]], lambda v: f"{v:g}×")
        write(ax, 0, 1.03, dtype, 8.5, color=INK, fontweight="bold")
        ax.set_xlim(min(p.moved_bytes for p in points) / 2, max(p.moved_bytes for p in points) * 2)
        low, high = ax.get_xlim()
        ticks(ax.xaxis, [10.0**e for e in range(0, 20, 1 + (high > 1e4 * low))], _bytes_label)
        ax.tick_params(labelsize=7, labelleft=i == 0)
        text = "bytes moved, 2MN" if points[0].operation == OPERATION else "bytes moved"
        ax.set_xlabel(text, fontsize=7.5, labelpad=2)
    top = 1 - 0.78 / canvas.get_figheight()
    text = f"best peer's time / {points[0].own}'s (higher is better)"
    canvas.text(0.07, top, text, fontsize=8, color=MUTED)
    _legend(canvas, points, [])


def _bytes_label(value: float) -> str:
    """A size as 100 KB, 10 MB or 1 GB (decimal)."""
    unit, name = next((u for u in UNITS if value >= u[0]), UNITS[-1])
    return f"{value / unit:g} {name}"


def _legend(canvas: Canvas, points: Points, first: list[str]) -> None:
    peers = sorted({p.best for p in points}, key=peer_order)
    marker_legend(canvas, first + peers, (canvas.get_figwidth(), canvas.get_figheight()))


def _placed(
    ax: Axes, x: float, y: float, ends: tuple[float, float], point: LimitPoint, name: str, text: str
) -> None:
    """A variant's marker, or at the edge it lies beyond, with its number."""
    _dot(ax, within(x, ends), y, point, name, hollow=point.above_roof)
    if not ends[0] <= x <= ends[1]:
        low = x < ends[0]
        ax.annotate(text, (0 if low else 1, y), xycoords=ax.get_yaxis_transform(), fontsize=6.5,
                    xytext=(-5 if low else 5, -0.3), textcoords="offset points", color=INK,
                    ha="right" if low else "left", va="center")  # fmt: skip


def _dot(
    ax: Axes, x: float, y: float, point: LimitPoint, name: str, *, small: bool = False,
    hollow: bool = False,
) -> None:  # fmt: skip
    """A variant's marker, hollow where it does not count as a win: the row of a middle visit."""
    style = style_of(name).dots(0.62 if small else 0.8, hollow, mew=0.4)
    ax.plot([x], [y], zorder=3 if small else 3.5, clip_on=False, **style)
    mark(ax, [x], [y], [_row(point, name)])


def _row(point: LimitPoint, name: str) -> Mapping[str, Any]:
    """The row of a variant's middle visit by time."""
    rows = sorted(point.seen[name].values(), key=lambda row: float(row["time_us"]))
    return dict(rows[(len(rows) - 1) // 2]) | {"variant": name}


def _pages(records: Records, frame: pd.DataFrame) -> list[Page]:
    made = []
    for group in _groups(frame, shares=True):
        title = f"At the limit: the {_roof(group[0])} and {_best(group)}, shape by shape"
        for dtype in (d for d in ITEM_BYTES if any(p.dtype == d for p in group)):
            points = [p for p in group if p.dtype == dtype]
            notes = [f"marker: that variant's{DOT}shaded: below {SHORT_US:g} µs",
                     "a number: beyond the axis",
                     "bars: 95 %, of recordings, else of rounds"]  # fmt: skip
            notes += ["open: above roof, not a win"] * any(p.above_roof for p in points)
            small = [*_provenance(frame, points), DOT.join(notes)]
            heights = _heights(points)
            shapes = LINE * (len(heights) + 0.6 * len({m for m, _ in heights}))
            draw = partial(_draw_shapes, points=points, heights=heights)
            subtitle = DOT.join([_subtitle(points), dtype, _means(points)])
            name, named = f"{file_of('limits', points[0])}-{dtype}", named_widths()
            width = WIDTH + FOR_LABELS * (group[0].operation != OPERATION and
                                          any(p.cols in named for p in points))  # fmt: skip
            size = (width, ABOVE + BELOW + shapes)
            made.append(Page(name, title, subtitle, small, draw, size, points[0].gpu))
    return made


def _ratio_pages(records: Records, frame: pd.DataFrame) -> list[Page]:
    made = []
    for points in _groups(frame):
        title = f"{_best(points).removeprefix('the ').capitalize()} over {points[0].own}, by size"
        ratios = [p.ratio(p.best) for p in points]
        ends = (
            max(min(0.9, *(r.low / 1.03 for r in ratios)), WIDEST[0]),
            min(max(1.5, *(r.high * 1.03 for r in ratios)), WIDEST[1]),
        )
        beyond = sum(r.value != within(r.value, ends) for r in ratios)
        notes = [f"dotted: {_bytes_label(LARGE_BYTES)}", "bars: 95 %"]
        notes += ["open: above roof, not a win"] * any(p.above_roof for p in points)
        notes += [f"{beyond} of {len(points)} points stand at the axis' end, beyond it"] * bool(
            beyond
        )
        small = [*_provenance(frame, points), DOT.join(notes)]
        draw = partial(_draw_ratios, points=points, ends=ends)
        name, subtitle = (
            file_of("limits_ratio", points[0]),
            DOT.join([_subtitle(points), _means(points)]),
        )
        made.append(Page(name, title, subtitle, small, draw, (WIDTH, 3.7), points[0].gpu))
    return made


def _groups(frame: pd.DataFrame, shares: bool = False) -> list[list[LimitPoint]]:
    """The groups of all operations, if asked of the points alone that have a roof."""
    return [
        group
        for operation in operations_of(frame)
        for group in groups_of(
            p for p in points_of(frame, operation) if not shares or p.share is not None
        )
    ]


def _best(points: Points) -> str:
    """What `auto` is compared with."""
    operation = points[0].operation
    return "the best public softmax" if operation == OPERATION else f"the best peer of {operation}"


def _headline_pages(records: Records, frame: pd.DataFrame) -> list[Page]:
    """A picture for each GPU whose rows hold QuACK's shapes, of the first timer and dtype."""
    shapes = {(m, n) for m, n, _ in named_grids()["quack"]}
    found: dict[str, list[list[LimitPoint]]] = {}
    points = [p for p in points_of(frame) if (p.rows, p.cols) in shapes and p.roof is not None]
    known = sorted(points, key=lambda p: p.cols)
    for gpu, timer, cache in dict.fromkeys((p.gpu, p.timer, p.cache) for p in points):
        alike = [p for p in known if (p.gpu, p.timer, p.cache) == (gpu, timer, cache)]
        by_dtype = [[p for p in alike if p.dtype == dtype] for dtype in HEADLINE_DTYPES]
        found.setdefault(gpu, []).extend(p for p in by_dtype if len(p) >= HEADLINE_LEAST)
    return [_headline_page(frame, groups[0]) for groups in found.values() if groups]


def _headline_page(frame: pd.DataFrame, points: Points) -> Page:
    first, most = points[0], max(p.rows for p in points)
    fewer = [p for p in points if p.rows < most]
    shapes = f"M = {most:,}"
    if fewer:
        shapes += f", fewer from N = {size_label(min(p.cols for p in fewer))}"
    names = [name for name in (OWN, *PEERS) if any(p.has(name) for p in points)]

    def draw(canvas: Canvas) -> None:
        ax = canvas.add_axes((LEFT, BOTTOM, WIDE, HIGH))
        size_axis(ax, [p.cols for p in points], "cols")
        labels = [_headline_line(ax, points, name) for name in names]
        roof = [p.moved_bytes / p.us(str(p.roof)) / 1e3 for p in points]
        ax.plot([p.cols for p in points], roof, color=HALO, lw=7, zorder=2.1, label="copy roof")
        labels.append(
            Label("copy of the same matrix", points[-1].cols, roof[-1], LineStyle(HALO, "s"))
        )
        card = card_of(first.gpu)
        if card.peak_gbps is not None:
            ax.axhline(card.peak_gbps, color=MUTED, lw=1, ls=DASHED, zorder=2)
            text = f"datasheet {card.peak_gbps:,.0f}"
            labels.append(Label(text, points[-1].cols, card.peak_gbps, LineStyle(MUTED, "")))
        ax.set_ylim(0, None)
        value_axis(ax, BANDWIDTH)
        write_labels(ax, labels)

    title = "Softmax against a copy: auto and the public kernels"
    small = _provenance(frame, points)
    small += ["open: above the copy roof, not a win"] * any(p.above_roof for p in points)
    subtitle = DOT.join([_subtitle(points), first.dtype, shapes])
    return Page(f"headline-{slug(first.gpu)}", title, subtitle, small, draw, gpu=first.gpu)


def _headline_line(ax: Axes, points: Points, name: str) -> Label:
    """A variant's bandwidth over N, with its interval on every point; a gap where it has none."""
    style, own = style_of(name), name == OWN
    times = {p.cols: p.time_of(name) for p in points if p.has(name)}
    moved = {p.cols: p.moved_bytes / 1e3 for p in points}
    y = [moved[n] / times[n].value if n in times else math.nan for n in moved]
    ax.plot(list(moved), y, label=name, zorder=3.4 if own else 3,
            **style.dots(ls="-", lw=2.4 if own else 1.4, color=style.color, mew=0.6))  # fmt: skip
    for n, time in times.items():
        ax.vlines(n, moved[n] / time.high, moved[n] / time.low, color=style.color, lw=1, zorder=2.6)
    for point in (p for p in points if p.has(name)):
        place = [point.cols], [moved[point.cols] / times[point.cols].value]
        mark(ax, *place, [_row(point, name)])
        if own and point.above_roof:
            ax.plot(*place, zorder=3.5, **style.dots(hollow=True, mew=0.9))
    last, whole = max(times), max(times) == points[-1].cols
    text = MAKERS[name] if whole else f"{MAKERS[name]}, to {size_label(last)}"
    return Label(text, last, moved[last] / times[last].value, style, whole=whole)


def _provenance(frame: pd.DataFrame, points: Points) -> list[str]:
    gpu, timer, cache = points[0].gpu, points[0].timer, points[0].cache
    alike = (frame["gpu"] == gpu) & (frame["timer"] == timer) & (frame["cache"] == cache)
    return provenance(frame[alike], card_of(gpu).name, timer, cache)


def file_of(stem: str, point: LimitPoint) -> str:
    """What the files of a point's group are called."""
    other = [slug(point.operation)] * (point.operation != OPERATION)
    parts = [stem, *other, slug(point.gpu), point.timer, *[point.cache] * (point.cache != "cold")]
    return "-".join([*parts, *["held_out"] * (not point.tuned)])


def _subtitle(points: Points) -> str:
    """The card, the timer, and that the widths are held out."""
    first = points[0]
    widths = ["held-out widths"] * (not first.tuned)
    return DOT.join([card_of(first.gpu).name, timer_label(first.timer), *widths])


def _means(points: Points) -> str:
    """The geometric mean of the large points before that of all."""
    parts = [("all", points), (f"≥ {LARGE_BYTES / 1e6:.0f} MB", [p for p in points if p.large])]
    means = [f"{ratio.value:.3f}× {text}" for text, some in parts if (ratio := geomean(some))]
    return f"means: {', '.join(reversed(means))}"


HEADLINE = Figure(
    "headline",
    f"headline needs {NEEDS}, and a copy, at three shapes of the grid quack",
    _headline_pages,
    "Bandwidth of auto, of the public kernels and of a copy against row width, at the shapes of "
    "QuACK's benchmark.",
)
LIMITS = Figure(
    "limits",
    f"limits needs {NEEDS}, and a copy",
    _pages,
    "At every shape and dtype the share of the roof that auto and the fastest public kernel reach, "
    "and that peer's time over that of auto.",
)
LIMITS_RATIO = Figure(
    "limits_ratio",
    f"limits_ratio needs {NEEDS}",
    _ratio_pages,
    "The fastest public kernel's time over that of auto against the bytes that any kernel of the "
    "operation moves, at every shape, a panel per dtype.",
)
