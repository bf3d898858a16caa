"""Limits: each shape's share of the copy roof, and the best peer's time over that of `auto`.

Widths that `auto` was tuned on have pages of their own, apart from those held out.
`limits` has a line per shape down the page and a pair of axes per dtype; `limits_ratio` shows every
point's ratio against the bytes it moves. What lies beyond an axis stands at its end, and on the
page with its number: near the roof a hundredth has to be seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import groupby

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, NullLocator

from analysis.estimate import Estimate
from analysis.figures.page import Canvas, Figure, Page, mark, provenance
from analysis.figures.style import (
    BLUSH,
    DOT,
    FAINT,
    INK,
    MUTED,
    marker_legend,
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
    points_of,
)
from analysis.load import Records
from analysis.selection import timer_label
from experiments.data.cards import card_of
from experiments.data.rows import ITEM_BYTES

WIDTH, LINE = 7.2, 0.118  # inches: of a page, and of a shape
ABOVE, BELOW = 1.06, 0.68  # inches that titles and small print take
LEFT, RIGHT, GAP, SPACE = 0.124, 0.988, 0.008, 0.02  # shares of the width
COLUMN = (3.6, 3.3)  # inches: a picture of limits_ratio
SHARES = (60.0, 107.0)
RATIOS = (0.9, 1.5)
UNITS = ((1e9, "GB"), (1e6, "MB"), (1e3, "KB"), (1, "B"))
Points = Sequence[LimitPoint]
Heights = dict[tuple[int, int], float]  # where each shape stands


def _draw_shapes(canvas: Canvas, points: Points, heights: Heights) -> None:
    """A pair of panels per dtype: shares of the copy roof, and ratios to the best peer."""
    height = canvas.get_figheight()
    dtypes = [d for d in ITEM_BYTES if any(p.dtype == d for p in points)]
    each = (RIGHT - LEFT - SPACE * (len(dtypes) - 1)) / len(dtypes)
    bottom, tall = BELOW / height, 1 - (ABOVE + BELOW) / height
    for i, dtype in enumerate(dtypes):
        mine = [p for p in points if p.dtype == dtype]
        left, half = LEFT + i * (each + SPACE), (each - GAP) / 2
        shares = canvas.add_axes((left, bottom, half, tall))
        ratios = canvas.add_axes((left + half + GAP, bottom, half, tall))
        for ax in (shares, ratios):
            _ground(ax, heights, mine)
        compared = [(heights[p.rows, p.cols], p, p.ratio(p.best)) for p in mine]
        _draw_share_panel(shares, compared)
        _draw_ratio_panel(ratios, compared)
        above = 1 + 0.22 / (tall * height)
        write(shares, 0, above, dtype, 8.5, color=INK, fontweight="bold")
        if i == 0:
            _names(shares, heights)
    _legend(canvas, points, [OWN])


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
    ax.tick_params(axis="x", labelsize=6.5, length=2, pad=1.5)


def _draw_share_panel(ax: Axes, points: Sequence[tuple[float, LimitPoint, Estimate]]) -> None:
    """Percent; the copy's line at 100."""
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
        ax.hlines(y, low, high, color=style_of(OWN).color, lw=1.1, zorder=2)
        _placed(ax, own, y, SHARES, point, OWN, f"{own:.0f}")
    ax.xaxis.set_major_locator(FixedLocator([70, 80, 90, 100]))
    write(ax, 0, 1.004, "% of the copy roof", 6.8, va="bottom")


def _draw_ratio_panel(ax: Axes, points: Sequence[tuple[float, LimitPoint, Estimate]]) -> None:
    """Twice as fast stands as far from 1 as half as fast; slower than a peer is shaded."""
    ax.set_xscale("log", base=2)
    ax.set_xlim(*RATIOS)
    ax.axvspan(RATIOS[0], 1, color=BLUSH, lw=0, zorder=0.1)
    ax.axvline(1, color=INK, lw=0.9, zorder=1)
    for y, point, ratio in points:
        low, high = (within(end, RATIOS) for end in (ratio.low, ratio.high))
        ax.hlines(y, low, high, color=style_of(point.best).color, lw=1.1, zorder=2)
        _placed(ax, ratio.value, y, RATIOS, point, point.best, f"{ratio.value:.2g}")
    ticks(ax.xaxis, [0.9, 1, 1.1, 1.25, 1.4], lambda value: f"{value:g}")
    write(ax, 0, 1.004, "best peer / auto", 6.8, va="bottom")


def _names(ax: Axes, heights: Heights) -> None:
    across, before = ax.get_yaxis_transform(), 0
    for (m, n), y in heights.items():
        ax.text(-0.06, y, size_label(n), transform=across, fontsize=6.2, ha="right", va="center")
        if m != before:
            ax.text(-0.84, y, f"{m} ×", transform=across, fontsize=6.2, ha="left", va="center",
                    fontweight="bold")  # fmt: skip
        before = m


def _draw_ratios(canvas: Canvas, points: Points) -> None:
    """Both axes are logarithms: a ratio stands as far from 1 as its inverse."""
    ax = canvas.add_axes((0.145, 0.24, 0.83, 0.455))
    ax.set_xscale("log", base=10)
    ax.set_yscale("log", base=2)
    ax.set_ylim(*RATIOS)
    ax.axhspan(RATIOS[0], 1, color=BLUSH, lw=0, zorder=0.1)
    ax.axhline(1, color=INK, lw=0.9, zorder=1)
    ax.axvline(LARGE_BYTES, color=MUTED, lw=0.7, ls=(0, (2, 2)), zorder=0.6)
    ax.text(LARGE_BYTES * 1.15, 1.46, f"{LARGE_BYTES / 1e6:.0f} MB", fontsize=6, color=MUTED)
    for point in points:
        ratio = point.ratio(point.best)
        low, high, value = (within(end, RATIOS) for end in (ratio.low, ratio.high, ratio.value))
        ax.vlines(point.moved_bytes, low, high, color=style_of(point.best).color, lw=0.9, zorder=2)
        hollow = point.above_roof
        _dot(ax, point.moved_bytes, value, point, point.best, small=True, hollow=hollow)
    value_axis(ax, "")
    ends = {RATIOS[0]: "≤ ", RATIOS[1]: "≥ "}
    places = [0.9, 1, 1.1, 1.2, 1.3, 1.4, 1.5]
    ticks(ax.yaxis, places, lambda value: f"{ends.get(value, '')}{value:g}×")
    write(ax, 0, 1.03, _means(points), 7.2)
    ax.xaxis.set_major_formatter(lambda value, _: _bytes_label(value))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.tick_params(labelsize=7)
    ax.set_xlabel("bytes that any softmax moves, 2MN", fontsize=7.5, labelpad=2)
    _legend(canvas, points, [])


def _bytes_label(value: float) -> str:
    """A size as 100 KB, 10 MB or 1 GB (decimal)."""
    unit, name = next((u for u in UNITS if value >= u[0]), UNITS[-1])
    return f"{value / unit:g} {name}"


def _legend(canvas: Canvas, points: Points, first: list[str]) -> None:
    peers = [peer for peer in PEERS if any(p.best == peer for p in points)]
    marker_legend(canvas, first + peers, (canvas.get_figwidth(), canvas.get_figheight()))


def _placed(
    ax: Axes, x: float, y: float, ends: tuple[float, float], point: LimitPoint, name: str, text: str
) -> None:
    """A variant's marker, or at the edge it lies beyond, with its number."""
    _dot(ax, within(x, ends), y, point, name, hollow=point.above_roof)
    if not ends[0] <= x <= ends[1]:
        side = 1 if x < ends[0] else -1
        ax.annotate(text, (within(x, ends), y), xytext=(4.5 * side, -0.3), fontsize=5.8,
                    textcoords="offset points", ha="left" if side > 0 else "right", va="center",
                    color=INK, zorder=4)  # fmt: skip


def _dot(
    ax: Axes, x: float, y: float, point: LimitPoint, name: str, *, small: bool = False,
    hollow: bool = False,
) -> None:  # fmt: skip
    """A variant's marker, hollow where it does not count as a win: the row of a middle visit."""
    style = style_of(name).dots(0.62 if small else 0.8, hollow, mew=0.4)
    ax.plot([x], [y], zorder=3 if small else 3.5, clip_on=False, **style)
    rows = sorted(point.seen[name].values(), key=lambda row: float(row["time_us"]))
    mark(ax, [x], [y], [dict(rows[(len(rows) - 1) // 2]) | {"variant": name}])


def _pages(records: Records, frame: pd.DataFrame) -> list[Page]:
    made, title = [], "At the limit: the copy roof and the best public softmax, shape by shape"
    for points in groups_of(p for p in points_of(frame) if p.share is not None):
        notes = [f"marker: that variant's{DOT}shaded: below {SHORT_US:g} µs",
                 "a number: beyond the axis",
                 "bars: 95 %, of recordings, else of rounds"]  # fmt: skip
        notes += ["open: above roof, not a win"] * any(p.above_roof for p in points)
        small = [*_provenance(frame, points), DOT.join(notes)]
        heights = _heights(points)
        shapes = LINE * (len(heights) + 0.6 * len({m for m, _ in heights}))
        draw = partial(_draw_shapes, points=points, heights=heights)
        subtitle = DOT.join([_subtitle(points), _means(points)])
        name, size = file_of("limits", points[0]), (WIDTH, ABOVE + BELOW + shapes)
        made.append(Page(name, title, subtitle, small, draw, size, points[0].gpu))
    return made


def _ratio_pages(records: Records, frame: pd.DataFrame) -> list[Page]:
    made, title = [], "Best public softmax over auto"
    for points in groups_of(points_of(frame)):
        where, which = _provenance(frame, points)
        card, protocol, *versions = where.split(DOT)  # in lines that a column holds
        small = [DOT.join([card, protocol]), DOT.join(versions) or "versions unknown", which]
        draw = partial(_draw_ratios, points=points)
        name, gpu = file_of("limits_ratio", points[0]), points[0].gpu
        made.append(Page(name, title, _subtitle(points), small, draw, COLUMN, gpu))
    return made


def _provenance(frame: pd.DataFrame, points: Points) -> list[str]:
    gpu, timer, cache = points[0].gpu, points[0].timer, points[0].cache
    alike = (frame["gpu"] == gpu) & (frame["timer"] == timer) & (frame["cache"] == cache)
    return provenance(frame[alike], card_of(gpu).name, timer, cache)


def file_of(stem: str, point: LimitPoint) -> str:
    """What the files of a point's group are called."""
    parts = [stem, slug(point.gpu), point.timer, *[point.cache] * (point.cache != "cold")]
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
    return f"best peer / auto, means: {', '.join(reversed(means))}"


LIMITS = Figure(
    "limits",
    f"limits needs {NEEDS}, and a copy",
    _pages,
    "At every shape and dtype the share of the copy roof that auto and the fastest public softmax "
    "reach, and that peer's time over that of auto.",
)
LIMITS_RATIO = Figure(
    "limits_ratio",
    f"limits_ratio needs {NEEDS}",
    _ratio_pages,
    "The fastest public softmax's time over that of auto against the bytes that any softmax moves, "
    "at every shape and dtype.",
)
