"""Limits: our share of the roof, and the fastest public kernel's time over ours.

`limits` has a page per dtype with a line per shape; `limits_ratio` has every point's ratio against
the bytes that it moves; `headline` has the bandwidths at the shapes of QuACK's benchmark. Widths
that `auto` was tuned on have pages of their own. A point beyond an axis stands at the axis' end,
with its number beside it, or is counted in the small print.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from itertools import groupby
from typing import Any

import pandas as pd
from matplotlib.axes import Axes

from analysis import points as limit
from analysis.estimate import median_of
from analysis.figures import style
from analysis.figures.lines import BOTTOM, HIGH, LEFT, WIDE, Panel, draw_panel, write_labels
from analysis.figures.page import SIZE, Canvas, Figure, Page, provenance
from analysis.figures.specs import BANDWIDTH
from analysis.figures.style import BLUSH, DOT, FAINT, INK, MUTED, slug, style_of
from analysis.load import Inputs
from analysis.points import LARGE_BYTES, NEEDS, PLACE, SHORT_US
from analysis.published import OPERATION
from analysis.selection import Query, Selection, timer_label
from experiments.data.cards import card_of
from experiments.data.jobs import named_grids
from experiments.data.rows import ITEM_BYTES

WIDTH, LINE = 7.2, 0.133  # inches: of a page, and of a shape
ABOVE, BELOW = 1.16, 0.62  # inches that titles and small print take
SHARE_PLACE, RATIO_PLACE = (0.172, 0.375), (0.603, 0.345)  # left end and width of the panels
SHARES, RATIOS = (40.0, 112.0), (0.88, 2.5)  # the axes' ends, further where our points are
FINE, COARSE = (0.8, 0.9, 1, 1.1, 1.25, 1.5, 2, 2.5), (0.25, 0.5, 1, 1.5, 2, 3, 4, 6, 8, 16, 32, 64)
UNITS = ((1e9, "GB"), (1e6, "MB"), (1e3, "KB"), (1, "B"))
HEADLINE_DTYPES = ("bfloat16", "float16", "float32")  # the first that there are points of
HEADLINE_LEAST = 3  # widths, fewer are no line
ABOVE_ROOF = "open: above roof, not a win"


def times_of(found: pd.DataFrame) -> pd.DataFrame:
    """The time of each kernel at each place, µs, with its interval: ``us``, ``low``, ``high``.

    ``rounds`` is how many visits it was measured in, ``labels`` are their rows.
    """
    lines = []
    for place, one in found.groupby([*PLACE, "kernel"], sort=False):
        ends = one[["low_us", "us", "high_us"]].to_numpy(float)
        sampled = [
            list(samples) if samples is not None and len(samples) else list(end[end == end])
            for samples, end in zip(one["samples_us"], ends, strict=True)
        ]
        time = median_of(sampled, list(one["recording"]))
        lines.append([*place, time.value, time.low, time.high, time.rounds, tuple(one["label"])])
    return pd.DataFrame(lines, columns=[*PLACE, "kernel", "us", "low", "high", "rounds", "labels"])


def file_of(stem: str, found: pd.DataFrame) -> str:
    """What the files of a group of points are called."""
    one = found.iloc[0]
    other = [slug(one["operation"])] * (one["operation"] != OPERATION)
    cache, held_out = [one["cache"]] * (one["cache"] != "cold"), ["held_out"] * (not one["tuned"])
    return "-".join([stem, *other, slug(one["gpu"]), one["timer"], *cache, *held_out])


def _page(stem: str, inputs: Inputs, found: pd.DataFrame, title: str, notes: Iterable[str],
          draw: Any, size: tuple[float, float], dtype: str = "") -> Page:  # fmt: skip
    """A page of a group of points; its subtitle ends in the means, large points first."""
    one, frame = found.iloc[0], inputs.frame
    alike = (frame["gpu"] == one["gpu"]) & (frame["set"] == one["set"])
    alike &= (frame["timer"] == one["timer"]) & (frame["cache"] == one["cache"])
    card = card_of(one["gpu"]).name
    small = [*provenance(frame[alike], card, one["timer"], one["cache"]), DOT.join(notes)]
    parts = {f"≥ {LARGE_BYTES / 1e6:.0f} MB": found[found["bytes"] >= LARGE_BYTES], "all": found}
    means = {text: limit.geomean(some) for text, some in parts.items()}
    texts = [f"{mean.value:.3f}× {text}" for text, mean in means.items() if mean]
    widths = ["held-out widths"] * (not one["tuned"])
    subtitle = [card, timer_label(one["timer"]), *widths, *[dtype] * bool(dtype)]
    name = "-".join([file_of(stem, found), *[dtype] * bool(dtype)])
    return Page(name, title, DOT.join([*subtitle, f"means: {', '.join(texts)}"]), small, draw, size,
                one["gpu"], one["operation"])  # fmt: skip


def _best(found: pd.DataFrame) -> str:
    """What our kernel is compared with."""
    operation = found["operation"].iloc[0]
    return "best public softmax" if operation == OPERATION else f"best peer of {operation}"


def _groups(inputs: Inputs) -> list[pd.DataFrame]:
    return [group for found in inputs.points.values() for group in limit.groups(found)]


def _ends(least: tuple[float, float], low: pd.Series, high: pd.Series) -> tuple[float, float]:
    """The ends of an axis that holds these intervals, and at least what lies within ``least``."""
    return min(least[0], float(low.min()) / 1.03), max(least[1], float(high.max()) * 1.03)


def _ticks(ends: tuple[float, float]) -> list[float]:
    """Ticks of an axis of ratios."""
    places = FINE if ends[1] < 3 * ends[0] else COARSE
    return [place for place in places if ends[0] <= place <= ends[1]]


def _legend(canvas: Canvas, first: list[str], lines: pd.DataFrame) -> None:
    peers = sorted(lines["kernel"].unique(), key=limit.peer_order)
    style.marker_legend(canvas, first + peers, (canvas.get_figwidth(), canvas.get_figheight()))


# limits: a line per shape.


def _limits(inputs: Inputs) -> list[Page]:
    made = []
    for group in _groups(inputs):
        roof = (
            "longest roof"
            if group["arithmetic_us"].notna().any()
            else f"{group['roof'].iloc[0]} roof"
        )
        shares = limit.shares(group)[[*PLACE, "share", "low", "high"]]
        lines = limit.ratios(group).merge(shares, on=PLACE, suffixes=("", "_share"))
        for dtype in (one for one in ITEM_BYTES if one in set(lines["dtype"])):
            shown = lines[lines["dtype"] == dtype]
            notes = [f"marker: that variant's{DOT}shaded: below {SHORT_US:g} µs",
                     "bars: 95 %", *[ABOVE_ROOF] * bool(shown["above_roof"].any())]  # fmt: skip
            heights = _heights(shown)
            tall = LINE * (len(heights) + 0.6 * shown["rows"].nunique())
            size = (WIDTH, ABOVE + BELOW + tall)
            draw = partial(_draw_shapes, lines=shown, heights=heights, roof=roof)
            title = f"At the limit: the {roof} and the {_best(group)}"
            points = group[group["dtype"] == dtype]
            made.append(_page("limits", inputs, points, title, notes, draw, size, dtype))
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
    ratios.axvspan(wide[0], 1, color=BLUSH, lw=0, zorder=0.1)
    own = lines["own"].iloc[0]
    over = f"best peer's time / {own}'s (higher is better)"
    of_roof = 100 * lines["low_share"], 100 * lines["high_share"]
    for ax, one, ends, text, places in (
        (shares, 100, _ends(SHARES, *of_roof), f"share of the {roof}, % (higher is better)",
         range(0, 200, 10)),
        (ratios, 1, wide, over, _ticks(wide)),
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
    _legend(canvas, [own], lines)


def _dot(ax: Axes, x: float, y: float, kernel: str, scale: float, hollow: bool = False) -> None:
    """A kernel's marker, hollow where it does not count as a win."""
    dots = style_of(kernel).dots(scale, hollow, mew=0.4)
    ax.plot([x], [y], zorder=3 if scale < 0.7 else 3.5, label=kernel, **dots)


# limits_ratio: every point against the bytes it moves.


def _limits_ratio(inputs: Inputs) -> list[Page]:
    made = []
    for group in _groups(inputs):
        lines = limit.ratios(group)
        notes = [f"dotted: {_bytes_label(LARGE_BYTES)}", "bars: 95 %"]
        notes += [ABOVE_ROOF] * bool(lines["above_roof"].any())
        best = _best(group)
        title = f"{best[0].upper()}{best[1:]} over {lines['own'].iloc[0]}, by size"
        draw = partial(_draw_ratios, lines=lines)
        made.append(_page("limits_ratio", inputs, group, title, notes, draw, (WIDTH, 3.7)))
    return made


def _draw_ratios(canvas: Canvas, lines: pd.DataFrame) -> None:
    """A panel per dtype. Both axes are logarithms: a ratio is as far from 1 as its inverse."""
    dtypes = [dtype for dtype in ITEM_BYTES if dtype in set(lines["dtype"])]
    each, ends = 0.915 / len(dtypes), _ends((0.9, 1.5), lines["low"], lines["high"])
    for i, dtype in enumerate(dtypes):
        mine = lines[lines["dtype"] == dtype]
        ax = canvas.add_axes((0.07 + i * each, 0.235, each - 0.018, 0.475))
        ax.set_xscale("log", base=10)
        ax.set_yscale("log", base=2)
        ax.set_ylim(*ends)
        ax.axhspan(ends[0], 1, color=BLUSH, lw=0, zorder=0.1)
        ax.axhline(1, color=INK, lw=0.9, zorder=1)
        ax.axvline(LARGE_BYTES, color=MUTED, lw=0.7, ls=(0, (2, 2)), zorder=0.6)
        for p in mine.to_dict("records"):
            ax.vlines(
                p["bytes"], p["low"], p["high"], color=style_of(p["kernel"]).color, lw=0.9, zorder=2
            )
            _dot(ax, p["bytes"], p["ratio"], p["kernel"], 0.62, p["above_roof"])
        style.value_axis(ax, "")
        style.ticks(ax.yaxis, _ticks(ends), lambda v: f"{v:g}×")
        style.write(ax, 0, 1.03, dtype, 8.5, color=INK, fontweight="bold")
        low, high = mine["bytes"].min() / 2, mine["bytes"].max() * 2
        ax.set_xlim(low, high)
        style.ticks(ax.xaxis, [10.0**e for e in range(0, 20, 1 + (high > 1e4 * low))], _bytes_label)
        ax.tick_params(labelsize=7, labelleft=i == 0)
        ax.set_xlabel("bytes moved", fontsize=7.5, labelpad=2)
    text = f"best peer's time / {lines['own'].iloc[0]}'s (higher is better)"
    canvas.text(0.07, 1 - 0.78 / canvas.get_figheight(), text, fontsize=8, color=MUTED)
    _legend(canvas, [], lines)


def _bytes_label(value: float) -> str:
    """A size as 100 KB, 10 MB or 1 GB (decimal)."""
    unit, name = next((u for u in UNITS if value >= u[0]), UNITS[-1])
    return f"{value / unit:g} {name}"


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
    page = _page("headline", inputs, found, title, notes, draw, SIZE, first["dtype"])
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
    Figure(
        "limits_ratio",
        f"limits_ratio needs {NEEDS}",
        _limits_ratio,
        "The fastest public kernel's time over that of auto against the bytes that any kernel of "
        "the operation moves, at every shape, a panel per dtype.",
    ),
)
