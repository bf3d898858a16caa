"""The axes of `limits_ratio`: every point's ratio to its best peer, against the bytes it moves."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from analysis.figures.limits_dots import dot, legend, row_of, within
from analysis.limits import LARGE_BYTES, PEERS
from analysis.limits.points import Point
from analysis.palette import BLUSH, INK, MUTED, look_of
from analysis.sheet import Sheet, mark
from analysis.style import value_axis

SIZE = (3.6, 3.3)  # inches: a column
AXES = (0.145, 0.24, 0.83, 0.455)
RATIOS, TICKS = (0.9, 1.5), (0.9, 1, 1.1, 1.2, 1.3, 1.4, 1.5)  # what lies beyond is at the edge
UNITS = ((1e9, "GB"), (1e6, "MB"), (1e3, "KB"))


def size(points: Sequence[Point]) -> tuple[float, float]:
    """A column's."""
    return SIZE


def draw(sheet: Sheet, points: Sequence[Point]) -> None:
    """Both axes are logarithms: a ratio stands as far from 1 as its inverse."""
    ax = sheet.add_axes(AXES)
    ax.set_xscale("log", base=10)
    ax.set_yscale("log", base=2)
    ratios = [point.ratio(point.best) for point in points]
    ax.set_ylim(*RATIOS)
    ax.axhspan(RATIOS[0], 1, color=BLUSH, lw=0, zorder=0.1)
    ax.axhline(1, color=INK, lw=0.9, zorder=1)
    ax.axvline(LARGE_BYTES, color=MUTED, lw=0.7, ls=(0, (2, 2)), zorder=0.6)
    ax.text(LARGE_BYTES * 1.15, 1.46, f"{LARGE_BYTES / 1e6:.0f} MB", fontsize=6, color=MUTED)
    for point, ratio in zip(points, ratios, strict=True):
        x, look = point.moved_bytes, look_of(point.best)
        low, high, value = (within(end, RATIOS) for end in (ratio.low, ratio.high, ratio.value))
        ax.vlines(x, low, high, color=look.color, lw=0.9, zorder=2)
        dot(ax, x, value, point.best, small=True, hollow=point.above_roof)
        mark(ax, [x], [value], [row_of(point, point.best)])
    value_axis(ax, "")
    _ticks(ax)
    names = [peer for peer in PEERS if any(p.best == peer for p in points)]
    legend(sheet, names, SIZE)


def _ticks(ax: Axes) -> None:
    ax.yaxis.set_major_locator(FixedLocator(list(TICKS)))
    ax.yaxis.set_major_formatter(FuncFormatter(_ratio_label))
    ax.text(0, 1.03, "time of the best peer / time of auto", transform=ax.transAxes, fontsize=7.2,
            color=MUTED)  # fmt: skip
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: bytes_label(value)))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.tick_params(labelsize=7)
    ax.set_xlabel("bytes that any softmax moves, 2MN", fontsize=7.5, labelpad=2)


def _ratio_label(value: float, _: int) -> str:
    end = {RATIOS[0]: "≤ ", RATIOS[1]: "≥ "}.get(value, "")
    return f"{end}{value:g}×"


def bytes_label(value: float) -> str:
    """A size as 100 KB, 10 MB or 1 GB (decimal)."""
    unit, name = next((u for u in UNITS if value >= u[0]), (1.0, "B"))
    return f"{value / unit:g} {name}"
