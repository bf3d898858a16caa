"""The ratio of every point against its time, a panel a kernel, the verdict by colour and form."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullLocator

from analysis.comparison.looks import LOOKS, Look, legend
from analysis.comparison.pairs import ARROW
from analysis.comparison.tables import by_kernel, mean_ratio, ratio_text
from analysis.comparison.verdicts import Asked, Compared
from analysis.figure import slug
from analysis.palette import FAINT, INK, MUTED
from analysis.plate import Plate
from analysis.sheet import Sheet, mark
from analysis.style import CACHES, TIMERS
from experiments.data.cards import card_of

COLUMNS, PANEL = 4, (2.0, 1.62)  # panels a line; inches
LEFT, BOTTOM, TOP, RIGHT = 0.52, 0.70, 0.88, 0.22  # inches around them
GAP = (0.14, 0.30)
# Ratios that ticks stand at, both ways from 1, of those the outermost two that fit.
NICE = ((0.99, 1.01), (0.98, 1.02), (0.95, 1.05), (0.9, 1.1), (0.8, 1.25), (0.67, 1.5),
        (0.5, 2), (0.33, 3), (0.2, 5), (0.1, 10), (0.05, 20), (0.01, 100))  # fmt: skip


def plates(found: Sequence[Compared], asked: Asked, small: Sequence[str]) -> list[Plate]:
    """A picture for each GPU and protocol with a point to draw."""
    drawn = [one for one in found if one.verdict in LOOKS and not math.isnan(_time(one))]
    places = {_place(one): [o for o in drawn if _place(o) == _place(one)] for one in drawn}
    return [_plate(place, mine, asked, small) for place, mine in sorted(places.items())]


def _place(one: Compared) -> tuple[str, str, str]:
    p = one.pair.place
    return str(p["gpu"]), str(p["timer"]), str(p["cache"])


def _time(one: Compared) -> float:
    """Of BASE where it has one, else of HEAD, µs."""
    timed = [v.timed for v in (one.pair.base, one.pair.head) if v and v.timed]
    return float(np.median([row["time_us"] for row in timed[0]])) if timed else math.nan


def _plate(
    place: tuple[str, str, str], found: list[Compared], asked: Asked, small: Sequence[str]
) -> Plate:
    gpu, timer, cache = place
    kernels = by_kernel(found)
    columns = min(COLUMNS, len(kernels))
    lines = math.ceil(len(kernels) / columns)
    # one or two kernels get wider panels, so that the title has room
    across = PANEL[0] * {1: 2.6, 2: 1.4}.get(columns, 1.0)
    width = LEFT + columns * across + (columns - 1) * GAP[0] + RIGHT
    height = BOTTOM + lines * PANEL[1] + (lines - 1) * GAP[1] + TOP

    def draw(sheet: Sheet) -> None:
        for i, (name, mine) in enumerate(kernels.items()):
            row, column = divmod(i, columns)
            left = LEFT + column * (across + GAP[0])
            bottom = height - TOP - (row + 1) * PANEL[1] - row * GAP[1]
            ax = sheet.add_axes((left / width, bottom / height, across / width, PANEL[1] / height))
            lowest = i + columns >= len(kernels)
            _panel(ax, name, mine, found, asked, first=column == 0, last=lowest)
        legend(sheet, found, LEFT / width, (height - 0.585) / height, 1 / width)
        sheet.text(LEFT / width, 0.38 / height, "time of BASE, µs", fontsize=8)

    card = ARROW.join(card_of(name).name for name in gpu.split(ARROW))
    subtitle = (
        f"{card}  ·  {TIMERS.get(timer, timer)}, {CACHES.get(cache, cache)}  ·  above 1 is slower"
    )
    name = f"compare-{slug(gpu)}-{slug(timer)}-{slug(cache)}"
    return Plate(name, "Time of HEAD / BASE, point by point", subtitle, small, draw,
                 (width, height), gpu)  # fmt: skip


def _panel(
    ax: Axes, name: str, mine: list[Compared], every: list[Compared], asked: Asked,
    *, first: bool, last: bool,
) -> None:  # fmt: skip
    reach = _reach(every, asked)
    times = [_time(one) for one in every]
    limit = math.log1p(asked.threshold)
    ax.set_xscale("log")
    margin = 1.25 if max(times) > 4 * min(times) else 2.5  # an axis needs two ticks
    ax.set_xlim(min(times) / margin, max(times) * margin)
    subs = (1,) if max(times) > 40 * min(times) else (1, 2, 5)
    ax.set_ylim(-reach, reach)
    ax.axhspan(-limit, limit, color=FAINT, lw=0, zorder=0)
    ax.axhline(0, color=MUTED, lw=0.8, zorder=1)
    for verdict, look in LOOKS.items():
        _points(ax, [one for one in mine if one.verdict == verdict], look, reach)
    ticks = [pair for pair in NICE if abs(math.log(pair[0])) <= reach][-2:]
    ax.yaxis.set_major_locator(FixedLocator([math.log(v) for pair in ticks for v in (*pair, 1)]))
    ax.yaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{math.exp(v):.4g}" if first else ""))
    ax.xaxis.set_major_locator(LogLocator(base=10, subs=subs))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.xaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:,g}" if last else ""))
    ax.tick_params(length=2, labelsize=7)
    for side in ("top", "right", "left"):
        ax.spines[side].set_visible(False)
    ax.text(0, 1.03, name if len(name) <= 26 else name[:25] + "…", transform=ax.transAxes,
            fontsize=8, fontweight="bold", color=INK)  # fmt: skip
    ax.text(1, 1.03, f"mean {ratio_text(mean_ratio(mine))}", transform=ax.transAxes,
            fontsize=6.5, color=MUTED, ha="right")  # fmt: skip


def _points(ax: Axes, found: list[Compared], look: Look, reach: float) -> None:
    if not found:
        return
    x = np.array([_time(one) for one in found])
    # a point that failed has no ratio: it stands at the upper edge, where what is worse stands
    edge = {"failed": reach * 0.92, "fixed": -reach * 0.92}
    y = np.array([math.log(one.ratio) if one.ratio > 0 else edge.get(one.verdict, 0.0)
                  for one in found])  # fmt: skip
    low, high = (np.log([getattr(one, end) for one in found]) for end in ("low", "high"))
    ax.vlines(x, low, high, color=look.color, lw=0.5, alpha=0.45, zorder=1.5)
    face = "white" if look.hollow else look.color
    ax.plot(x, y, ls="", marker=look.marker, ms=look.size, mfc=face, mec=look.color, mew=0.6,
            zorder=2 + look.size / 10)  # fmt: skip
    told = [{**one.pair.place, "ratio": one.ratio, "verdict": one.verdict} for one in found]
    mark(ax, x, y, told)


def _reach(found: Sequence[Compared], asked: Asked) -> float:
    """Half the axis: all ratios, and three thresholds at least; an interval may end beyond."""
    sizes = [abs(math.log(one.ratio)) for one in found if one.ratio > 0]
    return 1.12 * max([*sizes, 3 * math.log1p(asked.threshold)])
