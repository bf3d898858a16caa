"""The roofline three ways: share of the roof, intensity, and predicted against measured time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.ticker import MultipleLocator, NullLocator

from analysis.figures.draw import (
    DASHED,
    ROOF_SHARE,
    Label,
    LineFigure,
    Panel,
    lines,
    shade_l2,
    write_labels,
)
from analysis.figures.page import Canvas, Figure, Page, mark, provenance
from analysis.figures.style import (
    DOT,
    FAINT,
    INK,
    MUTED,
    LineStyle,
    slug,
    style_of,
    ticks,
    value_axis,
    variant_order,
    write,
)
from analysis.load import Key, Records, key_of
from analysis.roofline.verdicts import EXPLAINED, checked
from analysis.selection import Query, Selection, records_of
from experiments.data.cards import Card, card_of
from experiments.data.records import Counters

# Per element: compare with the maximum, subtract it, one exponential, add to the sum, scale.
# Each counts one, whichever unit does it; what a variant computes twice is not counted twice.
FLOPS_PER_ELEMENT = 5
FLOPS_NOTE = "5 flop per element: max, subtract, exp, add, scale"
SPAN = (0.1, 12.0)  # flop per byte: from naive in float32 to where the exponential unit takes over
BELOW = 6  # how far below its slowest marker the figure reaches; smaller shapes fall off it
HIGHEST_SHARE = 125.0  # %; the datasheet peak is far above where launches bound the copy as well
RATIOS = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
PREDICTED_NOTE = "grey: within 10 %; tick: a variant's median"
NEEDS = "needs timed rows and a copy variant, the roof, at the same shapes"
Ceilings = list[tuple[str, float, bool]]  # name, height, whether it slopes: GB/s, else Gflop/s
Draw = Callable[[pd.DataFrame, str, str, Records], Page | None]


def ceilings_of(points: pd.DataFrame, card: Card, measured: Mapping[Key, Counters]) -> Ceilings:
    """What bounds softmax on a card, as far as it is known.

    L2's is that of the fastest warm copy whose input and output fit in it, else the most that
    counters saw between L2 and the SMs, a lower bound and named so; no vendor publishes the figure
    itself. The exponential unit does one in every five flop.
    """
    copies = points[(points["operation"] == "copy") & (points["cache"] == "warm")]
    fitting = copies[copies["compulsory_bytes"] <= (card.l2_bytes or 0)]
    seen = [
        (record.l2_to_sm_bytes + record.requested_store_bytes) / record.kernel_us / 1e3
        for record in measured.values()
        if record.l2_to_sm_bytes is not None and record.requested_store_bytes is not None
    ]
    ceilings: Ceilings = []
    if not fitting.empty:
        ceilings.append(("L2 copy", float(fitting["modelled_gbps"].max()), True))
    elif seen:
        ceilings.append(("L2, most seen", max(seen), True))
    if card.peak_gbps is not None:
        ceilings.append(("DRAM datasheet", card.peak_gbps, True))
    ceilings.append(("DRAM copy", float(points["roof_gbps"].max()), True))
    facts = card.facts
    if "fp32_tflops" in facts:
        ceilings.append(("fp32", 1e3 * facts["fp32_tflops"], False))
    if {"exp2_per_sm_clock", "sms", "clock_mhz"} <= facts.keys():
        per_us = float(facts["exp2_per_sm_clock"]) * float(facts["sms"]) * float(facts["clock_mhz"])
        ceilings.append(("exp unit", FLOPS_PER_ELEMENT * per_us / 1e3, False))
    return ceilings


def _pages(draw: Draw) -> Callable[[Records, pd.DataFrame], list[Page]]:
    """A page for each card and protocol whose checked points ``draw`` makes one of."""

    def pages(records: Records, frame: pd.DataFrame) -> list[Page]:
        groups = checked(frame, records).groupby(["gpu", "timer", "cache"], sort=True)
        drawn = [
            draw(points, str(gpu), f"{slug(str(gpu))}-{timer}-{cache}", records)
            for (gpu, timer, cache), points in groups
        ]
        return [page for page in drawn if page is not None]

    return pages


# The classic roofline: Tflop/s against flop per byte, by the model's bytes and by DRAM's.


def _intensity(points: pd.DataFrame, gpu: str, suffix: str, records: Records) -> Page | None:
    """The softmax points of the most measured dtype; None without any.

    Points at their launch floor are left out: neither memory nor arithmetic bounds them.
    """
    own = points[(points["operation"] == "softmax") & (points["verdict"] != "launch")]
    if own.empty:
        return None
    dtype = own["dtype"].value_counts().index[0]
    own, card, first = own[own["dtype"] == dtype], card_of(gpu), own.iloc[0]
    measured = records.counters_of(gpu)
    ceilings = ceilings_of(points, card, measured)
    keys = ["marker: largest M·N by model bytes, dots: others, smallest cut off",
            "open: by DRAM bytes" if measured else "no DRAM counters recorded"]  # fmt: skip
    if not ceilings[0][0].startswith("L2"):
        keys.append("no L2 ceiling: neither warm copy nor counters")

    def draw(canvas: Canvas) -> None:
        ax = canvas.add_axes((0.088, 0.205, 0.60, 0.62))
        ax.set_xscale("log", base=2)
        ax.set_yscale("log")
        labels = [_draw_ceiling(ax, *ceiling) for ceiling in ceilings]
        for variant in sorted(own["variant"].unique(), key=variant_order):
            labels.append(_draw_variant(ax, own[own["variant"] == variant], variant, measured))
        ax.set_xlim(*SPAN)
        slowest = min(label.y for label in labels if label.style.marker)
        tops = [height / 1e3 for _, height, slopes in ceilings if not slopes]
        ax.set_ylim(slowest / BELOW, max(tops, default=ax.get_ylim()[1]) * 1.8)
        places = [2.0**e for e in range(-3, 4)]
        ticks(ax.xaxis, places, lambda v: f"1/{1 / v:g}" if v < 1 else f"{v:g}")
        ax.set_xlabel("intensity, flop per byte")
        value_axis(ax, "Tflop/s")
        ax.grid(axis="x", color=FAINT)
        write_labels(ax, labels)

    small = provenance(own, card.name, first["timer"], first["cache"], [FLOPS_NOTE])
    return Page(f"roofline_intensity-{suffix}", "Roofline of softmax",
                DOT.join([card.name, dtype, "all shapes"]), [*small, DOT.join(keys)], draw,
                gpu=gpu)  # fmt: skip


def _draw_ceiling(ax: Axes, name: str, height: float, slopes: bool) -> Label:
    span = np.array(SPAN)
    line = span * height / 1e3 if slopes else np.full(2, height / 1e3)
    measured = name == "DRAM copy"
    ax.plot(span, line, color=INK if measured else MUTED, lw=1.5 if measured else 1.0,
            ls="-" if measured else DASHED, label=name, zorder=2)  # fmt: skip
    unit = f"{height:,.0f} GB/s" if slopes else f"{height / 1e3:,.0f} Tflop/s"
    return Label(f"{name} {unit}", span[1], float(line[1]), LineStyle(MUTED, ""))


def _draw_variant(
    ax: Axes, mine: pd.DataFrame, variant: str, measured: Mapping[Key, Counters]
) -> Label:
    style, rows = style_of(variant.split(" ")[0]), records_of(mine)
    flops = FLOPS_PER_ELEMENT * mine["rows"].to_numpy() * mine["cols"].to_numpy()
    y = flops / mine["time_us"].to_numpy(dtype=float) / 1e6
    x = flops / mine["model_bytes"].to_numpy(dtype=float)
    ax.plot(x, y, ls="", marker=".", ms=2.2, color=style.color, alpha=0.4, zorder=2.6)
    mark(ax, x, y, rows)
    last = int(np.lexsort((mine["cols"], flops))[-1])
    ax.plot(x[last], y[last], label=variant, zorder=4, **style.dots(mew=0.6))
    for i, row in enumerate(rows):
        if (seen := measured.get(key_of(row))) is None:
            continue
        moved = flops[i] / (seen.dram_read_bytes + seen.dram_write_bytes)
        ax.plot([x[i], moved], [y[i], y[i]], color=style.color, lw=0.6, zorder=2.7)
        ax.plot(moved, y[i], zorder=3.5, **style.dots(0.8, hollow=True, mew=0.9))
    return Label(variant, float(x[last]), float(y[last]), style, whole=False)


# Predicted time (model bytes / roof) against measured time, and what is left of each variant.


def _predicted(points: pd.DataFrame, gpu: str, suffix: str, _: Records) -> Page | None:
    """The checked points of one card and protocol, all but those of the roofs."""
    points = points[points["operation"] != points["roof"]]
    if points.empty:
        return None
    card, first = card_of(gpu), points.iloc[0]
    dtypes = ", ".join(sorted(points["dtype"].unique()))
    subtitle = DOT.join([card.name, dtypes, f"{len(points):,} points of all shapes"])
    small = provenance(points, card.name, first["timer"], first["cache"], [PREDICTED_NOTE])
    by_variant = {
        variant: points[points["variant"] == variant]
        for variant in sorted(points["variant"].unique(), key=variant_order)
    }

    def draw(canvas: Canvas) -> None:
        _draw_times(canvas.add_axes((0.088, 0.205, 0.44, 0.62)), points, by_variant)
        _draw_residuals(canvas.add_axes((0.70, 0.205, 0.28, 0.62)), points, by_variant)

    title = "Predicted by traffic, and measured"
    return Page(f"roofline_predicted-{suffix}", title, subtitle, small, draw, gpu=gpu)


def _draw_times(ax: Axes, points: pd.DataFrame, by_variant: Mapping[str, pd.DataFrame]) -> None:
    ax.set_xscale("log")
    ax.set_yscale("log")
    both = points[["predicted_us", "time_us"]].to_numpy(dtype=float)
    ends = np.array([both.min() / 1.3, both.max() * 1.3])
    ax.plot(ends, ends, color=INK, lw=1.0, label="measured = predicted", zorder=2)
    ax.fill_between(ends, ends * (1 - EXPLAINED), ends * (1 + EXPLAINED), color=FAINT, lw=0)
    for variant, mine in by_variant.items():
        style = style_of(variant.split(" ")[0]).dots(0.62, mew=0.25)
        ax.plot(mine["predicted_us"], mine["time_us"], alpha=0.75, label=variant, zorder=3, **style)
        mark(ax, mine["predicted_us"], mine["time_us"], records_of(mine))
    ax.set_xlim(*ends)
    ax.set_ylim(*ends)
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_formatter(lambda value, _: f"{value:,g}")
        axis.set_minor_locator(NullLocator())
    value_axis(ax, "measured, µs")
    ax.set_xlabel("predicted, µs = model bytes / copy roof")


def _draw_residuals(ax: Axes, points: pd.DataFrame, by_variant: Mapping[str, pd.DataFrame]) -> None:
    ax.set_xscale("log", base=2)
    ax.axvspan(1 - EXPLAINED, 1 + EXPLAINED, color=FAINT, lw=0, zorder=0)
    ax.axvline(1, color=INK, lw=1.0, zorder=1)
    shift = np.random.default_rng(0)  # a fixed seed: a redraw is the same file
    ax.set_yticks(range(len(by_variant)), list(by_variant), fontsize=7.5)
    for place, (variant, mine) in enumerate(by_variant.items()):
        style, ratio = style_of(variant.split(" ")[0]), mine["ratio"].to_numpy(dtype=float)
        y = place + shift.uniform(-0.28, 0.28, ratio.size)
        ax.plot(ratio, y, ls="", marker=".", ms=3.2, mfc=style.color, mec="none", alpha=0.55)
        mark(ax, ratio, y, records_of(mine))
        ax.vlines(np.median(ratio), place - 0.4, place + 0.4, color=INK, lw=1.4, zorder=4)
        ax.get_yticklabels()[place].set_color(style.text_color)
    ax.set_ylim(len(by_variant) - 0.4, -0.6)
    low, high = points["ratio"].min(), points["ratio"].max()
    ax.set_xlim(min(0.45, low / 1.1), max(2.2, high * 1.1))
    ticks(ax.xaxis, RATIOS, lambda value: f"{value:g}×")
    ax.set_xlabel("measured / predicted")
    write(ax, 0, 1.025, "residual")
    sns.despine(ax=ax, left=True)


# Each variant's share of the measured copy roof against N.
MOST_TICKS = 100


def _draw_share(ax: Axes, shown: Selection, panel: Panel) -> list[Label]:
    """Percent from 0; 100 % is the fastest copy of the same shape, measured beside it."""
    shares = shown.points.assign(share_percent=100 * shown.points[panel.y])
    labels = lines(ax, replace(shown, points=shares), "share_percent")
    ax.axhline(100, color=INK, lw=1.6, label="copy roof", zorder=2.8)
    labels.append(Label("copy roof", shown.sizes[-1], 100, LineStyle(INK, "")))
    if shown.card.peak_gbps is not None:
        roofs = shown.points.groupby(shown.query.over)["roof_gbps"].max().reindex(shown.sizes)
        peak = 100 * shown.card.peak_gbps / roofs
        ax.plot(shown.sizes, peak, color=MUTED, lw=1.0, ls=DASHED, label="datasheet peak",
                zorder=2)  # fmt: skip
        last = peak.dropna()
        text = f"datasheet {shown.card.peak_gbps:,.0f} GB/s"
        labels.append(Label(text, last.index[-1], last.iloc[-1], LineStyle(MUTED, "")))
    ax.set_ylim(0, max(HIGHEST_SHARE, 1.04 * float(np.nanmax(shares["share_percent"]))))
    shade_l2(ax, shown)
    value_axis(ax, panel.label)
    if ax.get_ylim()[1] <= MOST_TICKS * 20:  # a row may claim any time, and ticks take memory
        ax.yaxis.set_major_locator(MultipleLocator(20))
    return labels


SHARE = LineFigure(
    "roofline_share",
    "Share of the roof by row width",
    Query(4096, "float32"),
    (Panel(ROOF_SHARE, "share of the copy roof, % of its bandwidth"),),
    draw=_draw_share,
    caption="Each variant's share of the fastest measured copy of the same shape against row "
    "width.",
)
ROOFLINE_FIGURES = (
    SHARE,
    Figure(
        "roofline_intensity",
        f"roofline_intensity {NEEDS}",
        _pages(_intensity),
        "The classic roofline: arithmetic per second against arithmetic per byte, by the bytes of "
        "the models and, open, by those that DRAM's counters saw.",
    ),
    Figure(
        "roofline_predicted",
        f"roofline_predicted {NEEDS}",
        _pages(_predicted),
        "Every timed point's measured time against the time that its model's bytes take at the "
        "copy roof, and what is left of each variant.",
    ),
)
