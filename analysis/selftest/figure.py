"""Every pair of twins: its ratio against its time, with what the protocol can resolve."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from analysis import style
from analysis.figure import slug
from analysis.lines import variant_order
from analysis.palette import BLUSH, FAINT, INK, MUTED, look_of
from analysis.plate import Plate
from analysis.selftest.floor import EDGES_US, Floor
from analysis.selftest.pairs import Pair
from analysis.selftest.tables import percent
from analysis.sheet import Sheet
from experiments.data.cards import card_of

RING = "#b91c1c"
SIZE = (5.8, 4.3)


def plates(floors: Sequence[Floor]) -> list[Plate]:
    """A picture for each card, a panel for each protocol."""
    wholes = [floor for floor in floors if floor.whole]
    gpus = list(dict.fromkeys(floor.gpu for floor in wholes))
    return [_plate(gpu, [f for f in floors if f.gpu == gpu]) for gpu in gpus]


def _plate(gpu: str, floors: Sequence[Floor]) -> Plate:
    wholes = [floor for floor in floors if floor.whole]
    pairs = sum(len(floor.pairs) for floor in wholes)
    rounds = max(floor.rounds[1] for floor in wholes)
    small = [
        "point: ratio over all rounds and its 95 % interval, ringed where it leaves out 1; "
        "grey: single rounds",
        "band: the least slowdown that 95 % of the intervals of a time range resolve; dotted: what "
        "95 % of single rounds stay within",
    ]

    def draw(sheet: Sheet) -> None:
        height = 0.64 / len(wholes)
        times = [pair.time_us for whole in wholes for pair in whole.pairs]
        ends = min(times) / 1.2, max(times) * 1.2
        reach = 1.25 * max(max(f.resolvable, f.one_round) for f in floors)
        for i, whole in enumerate(wholes):
            low = 0.185 + (len(wholes) - 1 - i) * (height + 0.045)
            ax = sheet.add_axes((0.088, low, 0.885, height - 0.02))
            same = (whole.timer, whole.cache)
            ranges = [f for f in floors if not f.whole and (f.timer, f.cache) == same]
            _panel(ax, whole, ranges, ends, reach, last=i == len(wholes) - 1)
        _names(sheet, [pair for whole in wholes for pair in whole.pairs])

    subtitle = f"{card_of(gpu).name}  ·  {pairs} pairs  ·  {rounds} rounds"
    name, title = f"selftest_floor-{slug(gpu)}", "A variant against itself"
    return Plate(name, title, subtitle, small, draw, SIZE, gpu)


def _panel(
    ax: Axes,
    whole: Floor,
    ranges: Sequence[Floor],
    ends: tuple[float, float],
    reach: float,
    last: bool,
) -> None:
    ax.set_xscale("log")
    ax.set_xlim(*ends)
    ax.set_ylim(-100 * reach, 100 * reach)
    for floor in ranges:
        left, right = max(floor.low_us, ends[0]), min(floor.high_us, ends[1])
        _band(ax, floor, left, right)
    for edge in EDGES_US[1:-1]:
        if ends[0] < edge < ends[1]:
            ax.axvline(edge, color=FAINT, lw=0.7, zorder=1)
    ax.axhline(0, color=INK, lw=0.8, zorder=2)
    for pair in whole.pairs:
        _pair(ax, pair)
    how = f"{style.TIMERS[whole.timer]}, {style.CACHES[whole.cache]}"
    style.value_axis(ax, f"ratio − 1, %  ·  {how}")
    ax.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    if last:
        ax.set_xlabel("time, µs")
    else:
        ax.tick_params(labelbottom=False)


def _band(ax: Axes, floor: Floor, left: float, right: float) -> None:
    high, single = 100 * floor.resolvable, 100 * floor.one_round
    ax.fill_between([left, right], -high, high, color=BLUSH, lw=0, zorder=0.5)
    for y in (-single, single):
        ax.plot([left, right], [y, y], color=MUTED, lw=0.8, ls=(0, (1, 1.5)), zorder=1.5)
    middle = float(np.sqrt(left * right))
    ax.text(middle, max(high, single), percent(floor.resolvable), fontsize=6.2, color=MUTED,
            ha="center", va="bottom", zorder=4)  # fmt: skip


def _pair(ax: Axes, pair: Pair) -> None:
    look, ratio = look_of(pair.kernel), pair.ratio
    ax.plot([pair.time_us] * pair.rounds, 100 * (pair.single - 1), ls="", marker=".", ms=1.8,
            color=MUTED, alpha=0.35, mew=0, zorder=2)  # fmt: skip
    low, high = 100 * (ratio.low - 1), 100 * (ratio.high - 1)
    ax.vlines(pair.time_us, low, high, color=look.color, lw=0.7, alpha=0.8, zorder=2.5)
    ax.plot([pair.time_us], [100 * (ratio.value - 1)], ls="", marker=look.marker, color=look.color,
            ms=0.5 * look.size, mew=0, zorder=3)  # fmt: skip
    if pair.differs:
        ax.plot([pair.time_us], [100 * (ratio.value - 1)], ls="", marker="o", mfc="none", mec=RING,
                ms=8, mew=0.9, zorder=4)  # fmt: skip


def _names(sheet: Sheet, pairs: Sequence[Pair]) -> None:
    """The variants' markers in a line at the top right."""
    handles = []
    for kernel in sorted({pair.kernel for pair in pairs}, key=variant_order):
        look = look_of(kernel)
        marker: Any = look.marker
        handles.append(Line2D([], [], ls="", marker=marker, color=look.color,
                              ms=0.6 * look.size, label=kernel))  # fmt: skip
    sheet.legend(handles=handles, loc="upper right", bbox_to_anchor=(0.985, 0.99), ncols=3,
                 frameon=False, fontsize=6.5, handletextpad=0.1, columnspacing=0.9)  # fmt: skip
