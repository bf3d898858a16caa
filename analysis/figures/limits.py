"""Limits: our share of the roof, and the fastest public kernel's time over ours.

`limits` has a page per dtype with a line per shape, widths that `auto` was tuned on apart from
others; `headline` has the bandwidths at the shapes of QuACK's benchmark.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from itertools import groupby
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from analysis import points as limit
from analysis.estimate import median_of
from analysis.figures import style
from analysis.figures.lines import BOTTOM, HIGH, LEFT, WIDE, Panel, draw_panel, write_labels
from analysis.figures.page import SIZE, Canvas, Figure, Page, provenance
from analysis.figures.specs import BANDWIDTH
from analysis.figures.style import BLUSH, DOT, FAINT, INK, MARGIN, MUTED, file_name, slug, style_of
from analysis.load import Inputs
from analysis.points import NEEDS, PLACE, SHORT_US
from analysis.published import OPERATION
from analysis.selection import Query, Selection, timer_label
from experiments.data.cards import card_of
from experiments.data.jobs import named_grids

WIDTH, LINE = 7.2, 0.133  # inches: of a page, and of a shape
ABOVE, BELOW = 1.16, 0.62  # inches that titles and small print take
SHARE_PLACE, RATIO_PLACE = (0.172, 0.375), (0.603, 0.345)  # left end and width of the panels
SHARES, RATIOS = (40.0, 112.0), (0.88, 2.5)  # the axes' ends, further where our points are
FINE, COARSE = (0.8, 0.9, 1, 1.1, 1.25, 1.5, 2, 2.5), (0.25, 0.5, 1, 1.5, 2, 3, 4, 6, 8, 16, 32, 64)
HEADLINE_DTYPES = ("bfloat16", "float16", "float32")  # the first that there are points of
HEADLINE_LEAST = 3  # widths, fewer are no line


def times_of(found: pd.DataFrame) -> pd.DataFrame:
    """The time of each kernel at each place, µs, with its interval: ``us``, ``low``, ``high``.

    ``rounds`` is how many visits it was measured in.
    """
    lines = []
    for place, one in found.groupby([*PLACE, "kernel"], sort=False):
        time = median_of(limit.samples_of(one), list(one["recording"]))
        lines.append([*place, time.value, time.low, time.high, time.rounds])
    return pd.DataFrame(lines, columns=[*PLACE, "kernel", "us", "low", "high", "rounds"])


def file_of(stem: str, found: pd.DataFrame) -> str:
    """What the files of a group of points are called."""
    one = found.iloc[0]
    cache, held_out = [one["cache"]] * (one["cache"] != "cold"), ["held_out"] * (not one["tuned"])
    return file_name(stem, one["operation"], slug(one["gpu"]), one["timer"], *cache, *held_out)


def _page(stem: str, inputs: Inputs, found: pd.DataFrame, title: str, notes: Iterable[str],
          draw: Any, size: tuple[float, float]) -> Page:  # fmt: skip
    """A page of a group's points of one dtype."""
    one, frame = found.iloc[0], inputs.frame
    alike = (frame["gpu"] == one["gpu"]) & (frame["set"] == one["set"])
    alike &= (frame["timer"] == one["timer"]) & (frame["cache"] == one["cache"])
    card = card_of(one["gpu"]).name
    small = [*provenance(frame[alike], card, one["timer"], one["cache"]), DOT.join(notes)]
    widths = ["held-out widths"] * (not one["tuned"])
    subtitle = DOT.join([card, timer_label(one["timer"]), *widths, one["dtype"]])
    name = f"{file_of(stem, found)}-{one['dtype']}"
    return Page(name, title, subtitle, small, draw, size, one["gpu"], one["operation"])


# limits: a line per shape.


def _limits(inputs: Inputs) -> list[Page]:
    made = []
    for operation, found in inputs.points.items():
        best = "best public softmax" if operation == OPERATION else f"best peer of {operation}"
        longest = found["arithmetic_us"].notna().any()
        roof = f"{'longest' if longest else found['roof'].iloc[0]} roof"
        for _, group in found.groupby(["gpu", "timer", "cache", "tuned", "dtype"], sort=False):
            shares = limit.shares(group)[[*PLACE, "share", "low", "high"]]
            lines = limit.ratios(group).merge(shares, on=PLACE, suffixes=("", "_share"))
            if lines.empty:
                continue
            notes = [f"marker: that variant's{DOT}shaded: below {SHORT_US:g} µs", "bars: 95 %"]
            notes += ["open: above roof, not a win"] * bool(lines["above_roof"].any())
            heights = _heights(lines)
            size = (WIDTH, ABOVE + BELOW + LINE * (len(heights) + 0.6 * lines["rows"].nunique()))
            draw = partial(_draw_shapes, lines=lines, heights=heights, roof=roof)
            title = f"At the limit: the {roof} and the {best}"
            made.append(_page("limits", inputs, group, title, notes, draw, size))
    return made


def _heights(lines: pd.DataFrame) -> dict[tuple[int, int], float]:
    """Where each shape stands, from 0 downwards; those of one M together."""
    heights: dict[tuple[int, int], float] = {}
    y, shapes = 0.0, sorted(set(zip(lines["rows"], lines["cols"], strict=True)))
    for _, alike in groupby(shapes, key=lambda shape: shape[0]):
        y -= 0.6 if heights else 0.0
        for shape in alike:
            heights[shape] = y
            y -= 1.0
    return heights


def _draw_shapes(
    canvas: Canvas, lines: pd.DataFrame, heights: Mapping[tuple[int, int], float], roof: str
) -> None:
    """Shares of the roof in percent, and beside them ratios to the best peer."""
    height = canvas.get_figheight()
    bottom, tall = BELOW / height, 1 - (ABOVE + BELOW) / height
    shares, ratios = (
        canvas.add_axes((left, bottom, wide, tall)) for left, wide in (SHARE_PLACE, RATIO_PLACE)
    )
    ratios.set_xscale("log", base=2)
    wide = _ends(RATIOS, lines["low"], lines["high"])
    ticks = FINE if wide[1] < 3 * wide[0] else COARSE
    ratios.axvspan(wide[0], 1, color=BLUSH, lw=0, zorder=0.1)
    own = lines["own"].iloc[0]
    over = f"best peer's time / {own}'s (higher is better)"
    of_roof = 100 * lines["low_share"], 100 * lines["high_share"]
    for ax, one, ends, text, places in (
        (shares, 100, _ends(SHARES, *of_roof), f"share of the {roof}, % (higher is better)",
         [10.0 * i for i in range(20)]),
        (ratios, 1, wide, over, [one for one in ticks if wide[0] <= one <= wide[1]]),
    ):  # fmt: skip
        ax.set_xlim(*ends)
        ax.set_ylim(min(heights.values()) - 0.8, 0.8)
        ax.set_yticks([])
        ax.spines[:].set_visible(False)
        ax.hlines(list(heights.values()), 0, 1, transform=ax.get_yaxis_transform(), color=FAINT,
                  lw=0.5, zorder=0.5)  # fmt: skip
        ax.axvline(one, color=INK, lw=0.9, zorder=1)
        ax.tick_params(axis="x", labelsize=7, length=2, pad=1.5, top=True, labeltop=True)
        style.ticks(ax.xaxis, places, lambda value: f"{value:g}")
        ax.annotate(text, (0, 1), xytext=(0, 14), xycoords="axes fraction", color=MUTED,
                    textcoords="offset points", fontsize=7.5 * min(1, 52 / len(text)))  # fmt: skip
    for p in lines.to_dict("records"):
        y = heights[p["rows"], p["cols"]]
        if p["short"]:
            for ax in (shares, ratios):
                ax.axhspan(y - 0.5, y + 0.5, color=FAINT, alpha=0.75, lw=0, zorder=0)
        color = style_of(p["own"]).color
        mine, peer = 100 * p["share"], 100 * p["share"] / p["ratio"]
        shares.plot([mine, peer], [y, y], color=MUTED, lw=0.6, alpha=0.6, zorder=1.5)
        shares.hlines(y, 100 * p["low_share"], 100 * p["high_share"], color=color, lw=1.1, zorder=2)
        _dot(shares, peer, y, p["kernel"], 0.62)
        _dot(shares, mine, y, p["own"], 0.8, p["above_roof"])
        ratios.hlines(y, p["low"], p["high"], color=style_of(p["kernel"]).color, lw=1.1, zorder=2)
        _dot(ratios, p["ratio"], y, p["kernel"], 0.8, p["above_roof"])
    # a vocabulary of 256000 is no 250K to anyone
    width_of = style.size_label if lines["operation"].iloc[0] == OPERATION else str
    shares.set_yticks([*heights.values()], [f"{m:,} × {width_of(n)}" for m, n in heights])
    shares.tick_params(axis="y", labelsize=7)
    kernels = [own, *sorted(lines["kernel"].unique(), key=limit.peer_order)]
    marks = [Line2D([], [], **style_of(kernel).dots(0.85, mew=0.4)) for kernel in kernels]
    canvas.legend(marks, kernels, loc="upper left", ncols=min(len(kernels), 8), frameon=False,
                  fontsize=7.2, handletextpad=0.1, columnspacing=0.9, borderpad=0, handlelength=1.4,
                  bbox_to_anchor=(MARGIN / WIDTH, 1 - 0.47 / height))  # fmt: skip


def _ends(least: tuple[float, float], low: pd.Series, high: pd.Series) -> tuple[float, float]:
    """The ends of an axis that holds these intervals, and at least what lies within ``least``."""
    return min(least[0], float(low.min()) / 1.03), max(least[1], float(high.max()) * 1.03)


def _dot(ax: Axes, x: float, y: float, kernel: str, scale: float, hollow: bool = False) -> None:
    """A kernel's marker, hollow where it does not count as a win."""
    dots = style_of(kernel).dots(scale, hollow, mew=0.4)
    ax.plot([x], [y], zorder=3 if scale < 0.7 else 3.5, label=kernel, **dots)


# headline: bandwidths at QuACK's shapes.


def _headline(inputs: Inputs) -> list[Page]:
    """A picture for each GPU whose rows hold QuACK's shapes, of the first timer and dtype."""
    shapes = {(m, n) for m, n, _ in named_grids()["quack"]}
    made: dict[str, Page] = {}
    for group in limit.groups(inputs.points[OPERATION]) if OPERATION in inputs.points else ():
        inside = [shape in shapes for shape in zip(group["rows"], group["cols"], strict=True)]
        known = group[inside].sort_values("cols", kind="stable")
        for dtype in HEADLINE_DTYPES:
            found = known[known["dtype"] == dtype]
            roofs, gpu = limit.pairs(found, limit.ROOF), str(group["gpu"].iloc[0])
            if gpu not in made and roofs["cols"].nunique() >= HEADLINE_LEAST:
                made[gpu] = _headline_page(inputs, found)
    return list(made.values())


def _headline_page(inputs: Inputs, found: pd.DataFrame) -> Page:
    first, most = found.iloc[0], found["rows"].max()
    times = times_of(found)
    ends = {"us": "time_us", "low": "time_low_us", "high": "time_high_us"}
    facts = found.drop_duplicates([*PLACE, "kernel"])[[*PLACE, "kernel", "role", "bytes", "roof"]]
    above = limit.ratios(found).set_index("cols")["above_roof"]
    points = times.rename(columns=ends).merge(facts, on=[*PLACE, "kernel"]).assign(
        variant=lambda made: made["kernel"], status="ok", arithmetic_us=float("nan"),
        operation=lambda made: made["role"].map({"roof": first["roof"]}).fillna(OPERATION),
        compulsory_bytes=lambda made: made["bytes"],
        effective_gbps=lambda made: made["bytes"] / made["time_us"] / 1e3,
        above_roof=lambda made: made["role"].eq("ours") & made["cols"].map(above),
    )  # fmt: skip
    gpu, dtype = first["gpu"], first["dtype"]
    shown = Selection(points, found, gpu, card_of(gpu), Query(most, dtype), most, dtype,
                      first["timer"], first["cache"])  # fmt: skip

    def draw(canvas: Canvas) -> None:
        ax = canvas.add_axes((LEFT, BOTTOM, WIDE, HIGH))
        style.size_axis(ax, shown.sizes, "cols")
        write_labels(ax, draw_panel(ax, shown, Panel("effective_gbps", BANDWIDTH, l2=0.02)))

    fewer = found.loc[found["rows"] < most, "cols"]
    shapes = f"M = {most:,}"
    shapes += f", fewer from N = {style.size_label(fewer.min())}" if len(fewer) else ""
    title = "Softmax against a copy: auto and the public kernels"
    notes = ["crossed out: above the copy roof, not a win"] * bool(above.any())
    page = _page("headline", inputs, found, title, notes, draw, SIZE)
    subtitle = DOT.join(
        [card_of(page.gpu).name, timer_label(first["timer"]), first["dtype"], shapes]
    )
    return replace(page, name=f"headline-{slug(page.gpu)}", subtitle=subtitle)


LIMITS_FIGURES = (
    Figure(
        "headline",
        f"headline needs {NEEDS}, and a copy, at three shapes of the grid quack",
        _headline,
        "Bandwidth of auto, of the public kernels and of a copy against row width, at the shapes "
        "of QuACK's benchmark.",
    ),
    Figure(
        "limits",
        f"limits needs {NEEDS}, and a copy",
        _limits,
        "At every shape and dtype the share of the roof that auto and the fastest public kernel "
        "reach, and that peer's time over that of auto.",
    ),
)
