"""The panels of `limits`: shapes down the page, a pair of axes a dtype."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby

from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from analysis.figures.limits_dots import bar, dot, legend, placed, row_of, within
from analysis.limits import OWN, PEERS
from analysis.limits.points import Point
from analysis.load import ITEM_BYTES
from analysis.palette import BLUSH, FAINT, INK, MUTED
from analysis.sheet import Sheet, mark
from analysis.style import size_label

WIDTH, LINE = 7.2, 0.118  # inches: of a page, and of a shape
ABOVE, BELOW = 1.06, 0.68  # inches that titles and small print take
LEFT, RIGHT, GAP, SPACE = 0.124, 0.988, 0.008, 0.02  # shares of the width
RATIOS, TICKS = (0.9, 1.5), (0.9, 1, 1.1, 1.25, 1.4)  # what is far beyond stands at the edge,
SHARES = (60.0, 107.0)  # with its number: here a hundredth has to be seen
Shape = tuple[int, int]
Heights = Mapping[Shape, float]


def size(points: Sequence[Point]) -> tuple[float, float]:
    """A page's width, and what its shapes take of height."""
    shapes = {(p.rows, p.cols) for p in points}
    return WIDTH, ABOVE + BELOW + LINE * (len(shapes) + 0.6 * len({m for m, _ in shapes}))


def draw(sheet: Sheet, points: Sequence[Point]) -> None:
    """A pair of panels a dtype."""
    shapes = sorted({(p.rows, p.cols) for p in points})
    heights, height = _heights(shapes), size(points)[1]
    dtypes = [d for d in ITEM_BYTES if any(p.dtype == d for p in points)]
    each = (RIGHT - LEFT - SPACE * (len(dtypes) - 1)) / len(dtypes)
    bottom, tall = BELOW / height, 1 - (ABOVE + BELOW) / height
    for i, dtype in enumerate(dtypes):
        mine = [p for p in points if p.dtype == dtype]
        left, half = LEFT + i * (each + SPACE), (each - GAP) / 2
        shares = sheet.add_axes((left, bottom, half, tall))
        ratios = sheet.add_axes((left + half + GAP, bottom, half, tall))
        for ax in (shares, ratios):
            _ground(ax, heights, mine)
        _shares(shares, mine, heights)
        _ratios(ratios, mine, heights)
        shares.text(0, 1 + 0.22 / (tall * height), dtype, transform=shares.transAxes,
                    fontsize=8.5, fontweight="bold")  # fmt: skip
        if i == 0:
            _names(shares, shapes, heights)
    best = [peer for peer in PEERS if any(p.best == peer for p in points)]
    legend(sheet, [OWN, *best], (WIDTH, height))


def _heights(shapes: Sequence[Shape]) -> Heights:
    """Where each shape stands, from 0 downwards; those of one M together."""
    heights, y, before = {}, 0.0, shapes[0][0]
    for shape in shapes:
        y -= 0.6 if shape[0] != before else 0.0
        heights[shape], before = y, shape[0]
        y -= 1.0
    return heights


def _ground(ax: Axes, heights: Heights, points: Sequence[Point]) -> None:
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


def _shares(ax: Axes, points: Sequence[Point], heights: Heights) -> None:
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
            dot(ax, peer, y, point.best, small=True)
            mark(ax, [peer], [y], [row_of(point, point.best)])
        bar(ax, y, (100 * share.low, 100 * share.high), SHARES, OWN)
        placed(ax, own, y, SHARES, OWN, point.above_roof, f"{own:.0f}")
        mark(ax, [within(own, SHARES)], [y], [row_of(point, OWN)])
    ax.xaxis.set_major_locator(FixedLocator([70, 80, 90, 100]))
    _head(ax, "% of the copy roof")


def _ratios(ax: Axes, points: Sequence[Point], heights: Heights) -> None:
    """Twice as fast stands as far from 1 as half as fast; slower than a peer is shaded."""
    ax.set_xscale("log", base=2)
    ax.set_xlim(*RATIOS)
    ax.axvspan(RATIOS[0], 1, color=BLUSH, lw=0, zorder=0.1)
    ax.axvline(1, color=INK, lw=0.9, zorder=1)
    for point in points:
        y, ratio = heights[point.rows, point.cols], point.ratio(point.best)
        bar(ax, y, (ratio.low, ratio.high), RATIOS, point.best)
        told = f"{ratio.value:.2g}"
        placed(ax, ratio.value, y, RATIOS, point.best, point.above_roof, told)
        mark(ax, [within(ratio.value, RATIOS)], [y], [row_of(point, point.best)])
    ax.xaxis.set_major_locator(FixedLocator(list(TICKS)))
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
