"""Points of `limits` as they are drawn: in the look of their variant, at the edge with a number."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.markers import MarkerStyle

from analysis.limits.points import Point
from analysis.palette import INK, look_of
from analysis.sheet import Sheet


def within(value: float, ends: tuple[float, float]) -> float:
    """A value, or the end of the axis that it lies beyond."""
    return min(max(value, ends[0]), ends[1])


def bar(
    ax: Axes, y: float, interval: tuple[float, float], ends: tuple[float, float], kernel: str
) -> None:
    """An interval, as far as the axis goes."""
    low, high = (within(end, ends) for end in interval)
    ax.hlines(y, low, high, color=look_of(kernel).color, lw=1.1, zorder=2)


def placed(
    ax: Axes, x: float, y: float, ends: tuple[float, float], kernel: str, hollow: bool, told: str
) -> None:
    """A point, or at the edge it lies beyond, with its number."""
    dot(ax, within(x, ends), y, kernel, hollow=hollow)
    if not ends[0] <= x <= ends[1]:
        side = 1 if x < ends[0] else -1
        ax.annotate(told, (within(x, ends), y), xytext=(4.5 * side, -0.3), fontsize=5.8,
                    textcoords="offset points", ha="left" if side > 0 else "right", va="center",
                    color=INK, zorder=4)  # fmt: skip


def dot(
    ax: Axes, x: float, y: float, kernel: str, small: bool = False, hollow: bool = False
) -> None:
    """A variant's marker; hollow where it is no win."""
    look = look_of(kernel)
    face, edge = ("white", look.color) if hollow else (look.color, "white")
    ax.plot([x], [y], ls="", marker=look.marker, ms=look.size * (0.62 if small else 0.8), mfc=face,
            mec=edge, mew=0.4, zorder=3 if small else 3.5, clip_on=False)  # fmt: skip


def legend(sheet: Sheet, names: Sequence[str], size: tuple[float, float]) -> None:
    """A row of markers with their variants' names, below the subtitle."""
    width, height = size
    marks = [Line2D([], [], ls="", marker=MarkerStyle(look_of(n).marker), ms=look_of(n).size * 0.85,
                    mfc=look_of(n).color, mec="white", mew=0.4) for n in names]  # fmt: skip
    sheet.legend(marks, names, loc="upper left", ncols=max(1, min(len(names), int(width / 0.85))),
                 frameon=False, fontsize=7.2, handletextpad=0.1, columnspacing=0.9, borderpad=0,
                 handlelength=1.4, bbox_to_anchor=(0.116 / width, 1 - 0.47 / height))  # fmt: skip


def row_of(point: Point, name: str) -> dict[str, object]:
    """The row of a middle visit, as every drawn point remembers one."""
    rows = sorted(point.seen[name].values(), key=lambda row: float(row["time_us"]))
    return dict(rows[(len(rows) - 1) // 2]) | {"variant": name}
