"""Limits: our share of the roof, and the fastest public kernel's time over ours.

`limits` shows every point by its time; `headline` has the bandwidths at the shapes of QuACK's
benchmark.
"""

from functools import partial

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import LogLocator

from analysis import points as limit
from analysis.figures import style
from analysis.figures.lines import LineFigure
from analysis.figures.style import DOT, INK, Figure, Page, file_name, slug, style_of
from analysis.load import Inputs
from analysis.points import ENDS, NEEDS, POINT, SHORT_US
from analysis.published import OPERATION
from analysis.selection import TIMER_NAMES, Query, Selection
from experiments.data.cards import datasheet_of
from experiments.data.jobs import named_grids

HEADLINE_DTYPES = ("bfloat16", "float16", "float32")  # the first that has points is drawn
RATIOS = (0.25, 0.5, 0.6, 0.7, 0.8, 0.9, 1, 1.25, 1.5, 2, 3, 4, 6, 8, 16, 32, 64)  # ticks


def file_of(stem: str, found: pd.DataFrame) -> str:
    """The name of the files of a group of points, without suffix."""
    one = found.iloc[0]
    cache, held_out = [one["cache"]] * (one["cache"] != "cold"), ["held_out"] * (not one["tuned"])
    return file_name(stem, one["operation"], slug(one["gpu"]), one["timer"], *cache, *held_out)


def _limits(inputs: Inputs) -> list[Page]:
    """A picture for each operation, GPU and protocol, held-out widths apart."""
    made = []
    for operation, found in inputs.points.items():
        peer = "public softmax" if operation == OPERATION else f"peer of {operation}"
        longest = found["arithmetic_us"].notna().any()
        roof = f"{'longest' if longest else found['roof'].iloc[0]} roof"
        shares = inputs.ratios(operation, limit.ROOF)[[*POINT, *ENDS]]
        every = inputs.ratios(operation).merge(shares, on=POINT, suffixes=("", "_share"))
        for lines in limit.groups(every):
            one, frame = lines.iloc[0], inputs.frame
            card, timer = datasheet_of(one["gpu"]).name, TIMER_NAMES.get(one["timer"], one["timer"])
            same = ["set", "gpu", "timer", "cache"]
            alike = frame[same].eq(one[same]).all(axis=1)
            small = style.provenance(frame[alike], card, one["timer"], one["cache"])
            shaded = f"shaded: below {SHORT_US:g} µs, where timers step by half a microsecond"
            small.append(DOT.join(["bars: 95 %", "open: above the roof, not a win", shaded]))
            widths = ["held-out widths"] * (not one["tuned"])
            subtitle = DOT.join([card, timer, *widths, ", ".join(lines["dtype"].unique())])
            title = f"At the limit: the {roof} and the best {peer}"
            draw = partial(_draw_points, lines=lines, roof=roof)
            name, size = file_of("limits", lines), style.stacked_size(2)
            made.append(Page(name, title, subtitle, small, draw, size, operation))
    return made


def _draw_points(canvas: style.Canvas, lines: pd.DataFrame, roof: str) -> None:
    """Shares of the roof by our time, and below them ratios to the best peer."""
    own = str(lines["own"].iloc[0])
    upper, lower = style.stacked(canvas, 2)
    lower.set_yscale("log", base=2)
    shares = lines.assign(**{end: lines[f"{end}_share"] for end in ENDS})
    for ax, points in ((upper, shares.assign(kernel=own)), (lower, lines)):
        ax.set_xscale("log", subs=[])
        _dots(ax, points)
        ax.axhline(1, color=INK, lw=0.9, zorder=1)
        left, right = ax.get_xlim()
        ax.axvspan(left, max(left, min(SHORT_US, right)), color=style.FAINT, lw=0, zorder=0)
        ax.set_xlim(left, right)
        subs = (1,) if right > 300 * left else (1, 2, 5) if right > 5 * left else (1, 1.5, 2, 3, 7)
        ax.xaxis.set_major_locator(LogLocator(subs=subs))
        ax.xaxis.set_major_formatter(lambda value, _: f"{value:,g}")
        size = 8 * min(1.0, *(style.ROOM / len(name) for name in points["kernel"]))
        ax.legend(loc="upper left", bbox_to_anchor=(1.02, 1), frameon=False, fontsize=size)
    upper.set_ylim(0, max(1.1, 1.03 * float(lines["high_share"].max())))
    style.value_axis(upper, f"share of the {roof} (higher is better)")
    style.value_axis(lower, f"best peer's time / {own}'s (higher is better)")
    low, high = lower.get_ylim()
    ratios = RATIOS if high < 8 * low else [2.0**e for e in range(-3, 9)]  # or labels overlap
    style.ticks(lower.yaxis, ratios, "{:g}×".format)
    lower.set_ylim(min(low, 0.93), max(high, 1.08))
    lower.axhspan(lower.get_ylim()[0], 1, color=style.BLUSH, lw=0, zorder=0.1)
    lower.set_xlabel(f"time of {own}, µs")


def _dots(ax: Axes, points: pd.DataFrame) -> None:
    """A marker and an interval at each point; hollow where it does not count as a win."""
    for kernel in sorted(points["kernel"].unique(), key=limit.peer_order):
        look = style_of(kernel)
        for i, (above, own) in enumerate(points[points["kernel"] == kernel].groupby("above_roof")):
            x, label = own["us"], "_again" if i else kernel
            ax.vlines(x, own["low"], own["high"], color=look.color, lw=0.9, zorder=2)
            ax.plot(x, own["ratio"], label=label, **look.dots(0.8, bool(above), mew=0.4, zorder=3))


def _headline(inputs: Inputs) -> list[Page]:
    """A picture per GPU at the shapes of QuACK's benchmark, under the first protocol and dtype."""
    title = "Softmax against a copy: auto and the public kernels"
    note = "from N = 128K on with smaller M, as in QuACK's benchmark"
    shapes = pd.DataFrame([at[:2] for at in named_grids()["quack"]], columns=["rows", "cols"])
    made: dict[str, Page] = {}
    for group in limit.groups(inputs.points[OPERATION]) if OPERATION in inputs.points else ():
        known = group.merge(shapes.drop_duplicates())
        for dtype in HEADLINE_DTYPES:
            found, one = known[known["dtype"] == dtype], group.iloc[0]
            widths = found.loc[found["role"] == limit.ROOF, "cols"].nunique()
            if widths >= 3 and one["gpu"] not in made:  # fewer are no line
                most = int(found["rows"].max())
                query, place = Query(most, dtype), (most, dtype, one["timer"], one["cache"])
                shown = Selection(inputs.frame.loc[found["label"]], one["gpu"], query, *place)
                made[one["gpu"]] = LineFigure("headline", title, query, note=note).page(shown)
    return list(made.values())


HEADLINE = Figure(
    "headline",
    f"headline needs {NEEDS}, and a copy, at three shapes of the grid quack",
    _headline,
    "Bandwidth of auto, of the public kernels and of a copy against row width, at the shapes of "
    "QuACK's benchmark.",
)
LIMITS = Figure(
    "limits",
    f"limits needs {NEEDS}, and a copy",
    _limits,
    "At every point the share of the roof that ours reaches, and the fastest public kernel's time "
    "over ours.",
)
