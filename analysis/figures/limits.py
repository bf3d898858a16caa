"""Limits: each shape's share of the copy roof, and the best peer's time over that of `auto`.

`limits` has a line per shape down the page and a pair of axes per dtype; `limits_ratio` shows every
point's ratio against the bytes it moves. What lies beyond an axis stands at its end, and on the
page with its number: near the roof a hundredth has to be seen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from analysis.figures.page import Canvas, Figure, Page, mark, provenance
from analysis.figures.style import (
    BLUSH,
    DOT,
    FAINT,
    INK,
    MUTED,
    TIMERS,
    marker_legend,
    size_label,
    slug,
    style_of,
    value_axis,
    within,
)
from analysis.limits import (
    LARGE_BYTES,
    NEEDS,
    OWN,
    PEERS,
    SHORT_US,
    LimitPoint,
    geomean,
    points_of,
)
from analysis.load import Records
from experiments.data.cards import card_of
from experiments.data.rows import ITEM_BYTES

WIDTH, LINE = 7.2, 0.118  # inches: of a page, and of a shape
ABOVE, BELOW = 1.06, 0.68  # inches that titles and small print take
LEFT, RIGHT, GAP, SPACE = 0.124, 0.988, 0.008, 0.02  # shares of the width
COLUMN = (3.6, 3.3)  # inches: a picture of limits_ratio
SHARES = (60.0, 107.0)
RATIOS = (0.9, 1.5)
UNITS = ((1e9, "GB"), (1e6, "MB"), (1e3, "KB"))
Points = Sequence[LimitPoint]
Shape = tuple[int, int]
Heights = Mapping[Shape, float]


def _shapes_size(points: Points) -> tuple[float, float]:
    """A page's width, and what its shapes take of height."""
    shapes = {(p.rows, p.cols) for p in points}
    return WIDTH, ABOVE + BELOW + LINE * (len(shapes) + 0.6 * len({m for m, _ in shapes}))


def _draw_shapes(canvas: Canvas, points: Points) -> None:
    """A pair of panels per dtype: shares of the copy roof, and ratios to the best peer."""
    shapes = sorted({(p.rows, p.cols) for p in points})
    heights, height = _heights(shapes), _shapes_size(points)[1]
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
        _draw_share_panel(shares, mine, heights)
        _draw_ratio_panel(ratios, mine, heights)
        shares.text(0, 1 + 0.22 / (tall * height), dtype, transform=shares.transAxes,
                    fontsize=8.5, fontweight="bold")  # fmt: skip
        if i == 0:
            _names(shares, shapes, heights)
    peers = [peer for peer in PEERS if any(p.best == peer for p in points)]
    marker_legend(canvas, [OWN, *peers], (WIDTH, height))


def _heights(shapes: Sequence[Shape]) -> Heights:
    """Where each shape stands, from 0 downwards; those of one M together."""
    heights, y, before = {}, 0.0, shapes[0][0]
    for shape in shapes:
        y -= 0.6 if shape[0] != before else 0.0
        heights[shape], before = y, shape[0]
        y -= 1.0
    return heights


def _ground(ax: Axes, heights: Heights, points: Points) -> None:
    """Faint lines to follow, a shade behind the short points."""
    ax.set_ylim(min(heights.values()) - 0.8, 0.8)
    ax.set_yticks([])
    for spine in ax.spines.values():
        spine.set_visible(False)
    ax.hlines(list(heights.values()), 0, 1, transform=ax.get_yaxis_transform(), color=FAINT,
              lw=0.5, zorder=0.5)  # fmt: skip
    for y in (heights[p.rows, p.cols] for p in points if p.short):
        ax.axhspan(y - 0.5, y + 0.5, color=FAINT, alpha=0.75, lw=0, zorder=0)
    ax.tick_params(axis="x", labelsize=6.5, length=2, pad=1.5)


def _draw_share_panel(ax: Axes, points: Points, heights: Heights) -> None:
    """Percent; the copy's line at 100."""
    ax.set_xlim(*SHARES)
    ax.axvline(100, color=INK, lw=0.9, zorder=1)
    for point in points:
        y, share, ratio = heights[point.rows, point.cols], point.share, point.ratio(point.best)
        assert share is not None
        own, peer = 100 * share.value, 100 * share.value / ratio.value
        ends = [within(end, SHARES) for end in (own, peer)]
        ax.plot(ends, [y, y], color=MUTED, lw=0.6, alpha=0.6, zorder=1.5)
        if SHARES[0] <= peer <= SHARES[1]:
            _dot(ax, peer, y, point.best, small=True)
            mark(ax, [peer], [y], [_row_of(point, point.best)])
        _bar(ax, y, (100 * share.low, 100 * share.high), SHARES, OWN)
        _placed(ax, own, y, SHARES, OWN, point.above_roof, f"{own:.0f}")
        mark(ax, [within(own, SHARES)], [y], [_row_of(point, OWN)])
    ax.xaxis.set_major_locator(FixedLocator([70, 80, 90, 100]))
    _head(ax, "% of the copy roof")


def _draw_ratio_panel(ax: Axes, points: Points, heights: Heights) -> None:
    """Twice as fast stands as far from 1 as half as fast; slower than a peer is shaded."""
    ax.set_xscale("log", base=2)
    ax.set_xlim(*RATIOS)
    ax.axvspan(RATIOS[0], 1, color=BLUSH, lw=0, zorder=0.1)
    ax.axvline(1, color=INK, lw=0.9, zorder=1)
    for point in points:
        y, ratio = heights[point.rows, point.cols], point.ratio(point.best)
        _bar(ax, y, (ratio.low, ratio.high), RATIOS, point.best)
        number = f"{ratio.value:.2g}"
        _placed(ax, ratio.value, y, RATIOS, point.best, point.above_roof, number)
        mark(ax, [within(ratio.value, RATIOS)], [y], [_row_of(point, point.best)])
    ax.xaxis.set_major_locator(FixedLocator([0.9, 1, 1.1, 1.25, 1.4]))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    _head(ax, "best peer / auto")


def _head(ax: Axes, text: str) -> None:
    ax.text(0, 1.004, text, transform=ax.transAxes, fontsize=6.8, color=MUTED, va="bottom")


def _names(ax: Axes, shapes: Sequence[Shape], heights: Heights) -> None:
    across = ax.get_yaxis_transform()
    for m, same in groupby(shapes, key=lambda shape: shape[0]):
        for place, (_, n) in enumerate(same):
            y = heights[m, n]
            ax.text(-0.06, y, size_label(n), transform=across, fontsize=6.2, ha="right",
                    va="center")  # fmt: skip
            if place == 0:
                ax.text(-0.84, y, f"{m} ×", transform=across, fontsize=6.2, ha="left", va="center",
                        fontweight="bold")  # fmt: skip


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
        x, ratio = point.moved_bytes, point.ratio(point.best)
        low, high, value = (within(end, RATIOS) for end in (ratio.low, ratio.high, ratio.value))
        ax.vlines(x, low, high, color=style_of(point.best).color, lw=0.9, zorder=2)
        _dot(ax, x, value, point.best, small=True, hollow=point.above_roof)
        mark(ax, [x], [value], [_row_of(point, point.best)])
    value_axis(ax, "")
    ax.yaxis.set_major_locator(FixedLocator([0.9, 1, 1.1, 1.2, 1.3, 1.4, 1.5]))
    ends = {RATIOS[0]: "≤ ", RATIOS[1]: "≥ "}
    ax.yaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{ends.get(v, '')}{v:g}×"))
    ax.text(0, 1.03, "time of the best peer / time of auto", transform=ax.transAxes, fontsize=7.2,
            color=MUTED)  # fmt: skip
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: bytes_label(value)))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.tick_params(labelsize=7)
    ax.set_xlabel("bytes that any softmax moves, 2MN", fontsize=7.5, labelpad=2)
    names = [peer for peer in PEERS if any(p.best == peer for p in points)]
    marker_legend(canvas, names, COLUMN)


def bytes_label(value: float) -> str:
    """A size as 100 KB, 10 MB or 1 GB (decimal)."""
    unit, name = next((u for u in UNITS if value >= u[0]), (1.0, "B"))
    return f"{value / unit:g} {name}"


def _bar(
    ax: Axes, y: float, interval: tuple[float, float], ends: tuple[float, float], kernel: str
) -> None:
    """An interval, as far as the axis goes."""
    low, high = (within(end, ends) for end in interval)
    ax.hlines(y, low, high, color=style_of(kernel).color, lw=1.1, zorder=2)


def _placed(
    ax: Axes, x: float, y: float, ends: tuple[float, float], kernel: str, hollow: bool, number: str
) -> None:
    """A point, or at the edge it lies beyond, with its number."""
    _dot(ax, within(x, ends), y, kernel, hollow=hollow)
    if not ends[0] <= x <= ends[1]:
        side = 1 if x < ends[0] else -1
        ax.annotate(number, (within(x, ends), y), xytext=(4.5 * side, -0.3), fontsize=5.8,
                    textcoords="offset points", ha="left" if side > 0 else "right", va="center",
                    color=INK, zorder=4)  # fmt: skip


def _dot(
    ax: Axes, x: float, y: float, kernel: str, small: bool = False, hollow: bool = False
) -> None:
    """A variant's marker; hollow where it does not count as a win."""
    style = style_of(kernel)
    face, edge = ("white", style.color) if hollow else (style.color, "white")
    ax.plot([x], [y], ls="", marker=style.marker, ms=style.size * (0.62 if small else 0.8),
            mfc=face, mec=edge, mew=0.4, zorder=3 if small else 3.5, clip_on=False)  # fmt: skip


def _row_of(point: LimitPoint, name: str) -> dict[str, object]:
    """The row of a middle visit, as every drawn point remembers one."""
    rows = sorted(point.seen[name].values(), key=lambda row: float(row["time_us"]))
    return dict(rows[(len(rows) - 1) // 2]) | {"variant": name}


def _pages(records: Records, frame: pd.DataFrame) -> list[Page]:
    notes = (f"marker: that variant's{DOT}shaded: below {SHORT_US:g} µs",
             "a number: beyond the axis", "bars: 95 %, of rounds")  # fmt: skip
    title = "At the limit: the copy roof and the best public softmax, shape by shape"
    made = []
    for points in _by_protocol(p for p in points_of(frame) if p.share is not None):
        where, which = _provenance(frame, points)
        flags = ["open: above roof, not a win"] if any(p.above_roof for p in points) else []
        small = [where, which, DOT.join([*notes, *flags])]
        mean = "best peer / auto, geometric mean: "
        made.append(_page("limits", title, points, mean, small, _shapes_size(points), _draw_shapes))
    return made


def _ratio_pages(records: Records, frame: pd.DataFrame) -> list[Page]:
    made = []
    for points in _by_protocol(points_of(frame)):
        where, which = _provenance(frame, points)
        card, protocol, *versions = where.split(DOT)  # in lines that a column holds
        small = [DOT.join([card, protocol]), DOT.join(versions) or "versions unknown", which]
        title = "Best public softmax over auto"
        made.append(_page("limits_ratio", title, points, "mean ", small, COLUMN, _draw_ratios))
    return made


def _by_protocol(points: Iterable[LimitPoint]) -> list[Points]:
    """The points of each GPU, timer and cache."""
    alike = groupby(points, key=lambda point: (point.gpu, point.timer, point.cache))
    return [list(mine) for _, mine in alike]


def _provenance(frame: pd.DataFrame, points: Points) -> list[str]:
    gpu, timer, cache = points[0].gpu, points[0].timer, points[0].cache
    alike = (frame["gpu"] == gpu) & (frame["timer"] == timer) & (frame["cache"] == cache)
    return provenance(frame[alike], card_of(gpu).name, timer, cache)


def _page(
    name: str,
    title: str,
    points: Points,
    mean: str,
    small: Sequence[str],
    size: tuple[float, float],
    draw: Callable[[Canvas, Points], None],
) -> Page:
    gpu, timer, cache = points[0].gpu, points[0].timer, points[0].cache
    subtitle = [card_of(gpu).name, TIMERS.get(timer, timer)]
    if (ratio := geomean(points)) is not None:
        subtitle.append(f"{mean}{ratio.value:.3f}×")
    file = "-".join([name, slug(gpu), timer, *[cache] * (cache != "cold")])
    return Page(file, title, DOT.join(subtitle), small, lambda canvas: draw(canvas, points), size,
                gpu)  # fmt: skip


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
