"""The roofline three ways: share of the roof, intensity, and predicted against measured time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from numpy.typing import NDArray

from analysis.figures.draw import (
    DASHED,
    LEVEL_DASH,
    LONGEST,
    ROOF_SHARE,
    LineFigure,
    Panel,
)
from analysis.figures.page import Canvas, Figure, Page, mark, provenance
from analysis.figures.style import (
    DOT,
    FAINT,
    INK,
    MUTED,
    slug,
    style_of,
    ticks,
    value_axis,
    variant_order,
    write,
)
from analysis.load import Key, Records, key_of
from analysis.published import OPERATION
from analysis.roofline.verdicts import EXPLAINED, PROTOCOL, checked, predicted_by
from analysis.selection import Query, name_variants, one_sweep, records_of
from experiments.data.cards import Card, card_of
from experiments.data.records import Counters

# Per element: compare with the maximum, subtract it, one exponential, add to the sum, scale.
# Each counts one, whichever unit does it; what a variant computes twice is not counted twice.
FLOPS_PER_ELEMENT = 5
FLOPS_NOTE = "5 flop per element: max, subtract, exp, add, scale"
INTENSITIES = (1 / 8, 1 / 4, 1 / 2, 1, 2)  # flop per byte: from naive in float32 to fused in 16 bit
SPAN = (INTENSITIES[0] / 1.05, INTENSITIES[-1] * 1.05)
BELOW = 5  # how far below its slowest variant's median the figure reaches
ACROSS, PANEL, ABOVE = 5, 1.45, 1.0  # panels side by side; inches of their height and above them
STRIP = 0.24  # inches of a variant's line
RATIOS = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
PREDICTED_NOTE = "grey: within 10 %; tick: a variant's median"
NEEDS = "needs timed rows and those of their roof, at the same shapes"
Ceilings = list[tuple[str, float, bool]]  # name, height, whether it slopes: GB/s, else Gflop/s
Draw = Callable[[pd.DataFrame, pd.DataFrame, str, Records], Page | None]


def ceilings_of(
    points: pd.DataFrame, copies: pd.DataFrame, card: Card, measured: Mapping[Key, Counters]
) -> Ceilings:
    """What bounds the ``points`` of a card, as far as it is known.

    L2's is that of the fastest warm copy whose input and output fit in it, else the most that
    counters saw between L2 and the SMs, a lower bound and named so; no vendor publishes the figure
    itself. The exponential unit does one in every five flop.
    """
    warm = copies[copies["cache"] == "warm"]
    fitting = warm[warm["compulsory_bytes"] <= (card.l2_bytes or 0)]
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
    """A page for each operation, card and protocol whose checked points ``draw`` makes one of."""

    def pages(records: Records, frame: pd.DataFrame) -> list[Page]:
        points = checked(frame, records)
        own = points[points["operation"] != points["roof"]]
        drawn = []
        for (operation, gpu, timer, cache), mine in own.groupby(["operation", *PROTOCOL]):
            moved = (points["operation"] == "copy") & (points["gpu"] == gpu)
            of = [slug(str(operation))] * (operation != OPERATION)
            suffix = "-".join([*of, slug(str(gpu)), str(timer), str(cache)])
            mine = name_variants(one_sweep(mine, mine))
            drawn.append(draw(mine, points[moved], suffix, records))
        return [page for page in drawn if page is not None]

    return pages


# The classic roofline: Tflop/s against flop per byte, by the model's bytes and by DRAM's.


def _intensity(
    points: pd.DataFrame, copies: pd.DataFrame, suffix: str, records: Records
) -> Page | None:
    """The points of softmax of the most measured dtype, a panel per variant; None without any.

    Points at their launch floor are left out: neither memory nor arithmetic bounds them.
    """
    own = points[(points["operation"] == OPERATION) & (points["verdict"] != "launch")]
    if own.empty:
        return None
    first, dtype = own.iloc[0], own["dtype"].value_counts().index[0]
    own, gpu = own[own["dtype"] == dtype], str(first["gpu"])
    card, measured = card_of(gpu), records.counters_of(gpu)
    ceilings = ceilings_of(own, copies, card, measured)
    keys = ["dots: by the model's bytes, largest M·N as a marker, smallest cut off",
            "open: by DRAM's" if measured else "no DRAM counters recorded"]  # fmt: skip
    if not ceilings[0][0].startswith("L2"):
        keys.append("no L2 ceiling: neither warm copy nor counters")
    variants = sorted(own["variant"].unique(), key=variant_order)
    high = -(-len(variants) // ACROSS)
    size = (7.2, 1.62 + PANEL * high)

    def draw(canvas: Canvas) -> None:
        panels = [_panel(canvas, i, len(variants)) for i in range(len(variants))]
        low, top = np.inf, 0.0
        for ax, variant in zip(panels, variants, strict=True):
            y = _draw_variant(ax, own[own["variant"] == variant], variant, measured)
            low, top = min(low, np.median(y)), max(top, np.max(y))
        fits = 2 * max(height for _, height, slopes in ceilings if slopes) / 1e3
        for i, ax in enumerate(panels):
            ax.set_ylim(low / BELOW, max(top * 1.4, fits))
            for name, height, slopes in ceilings:
                if slopes or height / 1e3 < ax.get_ylim()[1]:
                    _draw_ceiling(ax, height, slopes, _ceiling_style(name))
            value_axis(ax, "")
            ax.grid(axis="x", color=FAINT)
            ax.tick_params(labelleft=i % ACROSS == 0, labelsize=7)
        named = [f"{name} {_ceiling_text(height, slopes)}" for name, height, slopes in ceilings
                 if slopes]  # fmt: skip
        drawn = [Line2D([], [], **_ceiling_style(name)) for name, _, up in ceilings if up]
        canvas.legend(drawn, named, loc="upper left", ncols=len(named), frameon=False, fontsize=7.2,
                      bbox_to_anchor=(0, 1 - 0.42 / size[1]), columnspacing=1.2)  # fmt: skip
        left = 0.52 / size[0]
        canvas.text(left, 1 - 0.83 / size[1], "Tflop/s (higher is better)", fontsize=8, color=MUTED)

    above = [f"{name} {_ceiling_text(height, slopes)}" for name, height, slopes in ceilings
             if not slopes]  # fmt: skip
    keys += [f"above the axes: {' and '.join(above)}"] * bool(above)
    small = provenance(own, card.name, first["timer"], first["cache"], [FLOPS_NOTE])
    return Page(f"roofline_intensity-{suffix}", "Roofline of softmax, by variant",
                DOT.join([card.name, dtype, "all shapes"]), [*small, DOT.join(keys)], draw,
                size, gpu)  # fmt: skip


def _panel(canvas: Canvas, place: int, count: int) -> Axes:
    """The axes of one variant: intensity from that of naive in float32 to twice that of fused."""
    width, height = canvas.get_size_inches()
    room = (width - 0.62) / ACROSS
    left, row = 0.52 + room * (place % ACROSS), place // ACROSS
    bottom = height - ABOVE - PANEL * (row + 1) + 0.3
    ax = canvas.add_axes((left / width, bottom / height, (room - 0.1) / width,
                          (PANEL - 0.42) / height))  # fmt: skip
    ax.set_xscale("log", base=2)
    ax.set_yscale("log")
    ax.set_xlim(*SPAN)
    below = place + ACROSS >= count
    ticks(ax.xaxis, INTENSITIES, lambda v: f"1/{1 / v:g}" if v < 1 else f"{v:g}")
    ax.tick_params(labelbottom=below)
    if below:
        ax.set_xlabel("flop per byte", fontsize=7.5, labelpad=1)
    return ax


def _ceiling_style(name: str) -> Mapping[str, Any]:
    """The copy's solid, the datasheet's dashed, all others dotted."""
    styles = {"DRAM copy": (INK, 1.5, "-"), "DRAM datasheet": (MUTED, 1.0, DASHED)}
    color, width, dash = styles.get(name, (MUTED, 1.0, LEVEL_DASH))
    return {"color": color, "lw": width, "ls": dash}


def _ceiling_text(height: float, slopes: bool) -> str:
    return f"{height:,.0f} GB/s" if slopes else f"{height / 1e3:,.0f} Tflop/s"


def _draw_ceiling(ax: Axes, height: float, slopes: bool, style: Mapping[str, Any]) -> None:
    span = np.array(SPAN)
    line = span * height / 1e3 if slopes else np.full(2, height / 1e3)
    ax.plot(span, line, zorder=2, **style)


def _draw_variant(
    ax: Axes, mine: pd.DataFrame, variant: str, measured: Mapping[Key, Counters]
) -> NDArray[np.float64]:
    """Draws its points; returns their heights, Tflop/s."""
    style, rows = style_of(variant.split(" ")[0]), records_of(mine)
    flops = FLOPS_PER_ELEMENT * mine["rows"].to_numpy() * mine["cols"].to_numpy()
    y: NDArray[np.float64] = flops / mine["time_us"].to_numpy(dtype=float) / 1e6
    x = flops / mine["model_bytes"].to_numpy(dtype=float)
    ax.plot(x, y, ls="", marker=".", ms=3, color=style.color, alpha=0.5, zorder=2.6)
    mark(ax, x, y, rows)
    last = int(np.lexsort((mine["cols"], flops))[-1])
    ax.plot(x[last], y[last], label=variant, zorder=4, **style.dots(mew=0.6))
    for i, row in enumerate(rows):
        if (seen := measured.get(key_of(row))) is None:
            continue
        moved = flops[i] / (seen.dram_read_bytes + seen.dram_write_bytes)
        ax.plot([x[i], moved], [y[i], y[i]], color=style.color, lw=0.6, zorder=2.7)
        ax.plot(moved, y[i], zorder=3.5, **style.dots(0.8, hollow=True, mew=0.9))
    name = variant if len(variant) <= LONGEST else variant[: LONGEST - 1] + "…"
    size = 8 * min(1.0, 20 / len(name))
    write(ax, 0, 1.03, name, size, color=style.text_color, fontweight="bold")
    return y


# Measured time over what the model's bytes take at the roof.


def _predicted(points: pd.DataFrame, _: pd.DataFrame, suffix: str, __: Records) -> Page | None:
    """The checked points of one operation, card and protocol."""
    first, gpu = points.iloc[0], str(points.iloc[0]["gpu"])
    card, operation = card_of(gpu), first["operation"]
    dtypes = ", ".join(sorted(points["dtype"].unique()))
    subtitle = DOT.join([card.name, dtypes, f"{len(points):,} points of all shapes"])
    small = provenance(points, card.name, first["timer"], first["cache"])
    small.append(PREDICTED_NOTE)
    by_variant = {
        variant: points[points["variant"] == variant]
        for variant in sorted(points["variant"].unique(), key=variant_order)
    }
    size = (7.2, 1.5 + STRIP * len(by_variant))

    def draw(canvas: Canvas) -> None:
        bottom = 0.82 / size[1]
        ax = canvas.add_axes((0.2, bottom, 0.78, 1 - bottom - 0.68 / size[1]))
        _draw_residuals(ax, points, by_variant)

    of = "" if operation == OPERATION else f", {operation}"
    title = f"Measured time over the time its traffic takes{of}"
    return Page(f"roofline_predicted-{suffix}", title, subtitle, small, draw, size, gpu)


def _draw_residuals(ax: Axes, points: pd.DataFrame, by_variant: Mapping[str, pd.DataFrame]) -> None:
    ax.set_xscale("log", base=2)
    ax.axvspan(1 - EXPLAINED, 1 + EXPLAINED, color=FAINT, lw=0, zorder=0)
    ax.axvline(1, color=INK, lw=1.0, zorder=1)
    shift = np.random.default_rng(0)  # a fixed seed: a redraw is the same file
    names = [v if len(v) <= LONGEST else v[: LONGEST - 1] + "…" for v in by_variant]
    ax.set_yticks(range(len(by_variant)), names)
    for place, (variant, mine) in enumerate(by_variant.items()):
        style, ratio = style_of(variant.split(" ")[0]), mine["ratio"].to_numpy(dtype=float)
        y = place + shift.uniform(-0.28, 0.28, ratio.size)
        ax.plot(ratio, y, ls="", marker=".", ms=3.2, mfc=style.color, mec="none", alpha=0.55)
        mark(ax, ratio, y, records_of(mine))
        ax.vlines(np.median(ratio), place - 0.4, place + 0.4, color=INK, lw=1.4, zorder=4)
        label = ax.get_yticklabels()[place]
        label.set(color=style.text_color, fontsize=8 * min(1.0, 15 / len(label.get_text())))
    ax.set_ylim(len(by_variant) - 0.4, -0.6)
    low, high = points["ratio"].min(), points["ratio"].max()
    ax.set_xlim(min(0.45, low / 1.1), max(2.2, high * 1.1))
    ticks(ax.xaxis, RATIOS, lambda value: f"{value:g}×")
    by = "model's bytes / roof's bandwidth"
    if points["arithmetic_us"].notna().any():
        by = predicted_by(points)
    ax.set_xlabel(f"measured time / ({by}), 1× is as predicted (lower is better)")
    sns.despine(ax=ax, left=True)


SHARE = LineFigure(
    "roofline_share",
    "Share of the roof by row width",
    Query(4096, "float32"),
    (Panel(ROOF_SHARE, "share of the copy roof's bandwidth (higher is better)"),),
    caption="Each variant's share of the fastest measured copy of the same shape against row "
    "width.",
)
ROOFLINE_FIGURES = (
    SHARE,
    Figure(
        "roofline_intensity",
        f"roofline_intensity {NEEDS}",
        _pages(_intensity),
        "The classic roofline: arithmetic per second against arithmetic per byte, a panel per "
        "variant: by the bytes of "
        "the models and, open, by those that DRAM's counters saw.",
    ),
    Figure(
        "roofline_predicted",
        f"roofline_predicted {NEEDS}",
        _pages(_predicted),
        "Every timed point's measured time over the time that its model's bytes take at the "
        "roof, by variant: what traffic does not explain.",
    ),
)
