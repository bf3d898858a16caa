"""Attention over the length of its sequences: what it moves, how long it takes, and where.

M is queries in all, N the keys of each. What is moved and held is drawn per query, so that rows and
counters of different M share an axis.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import PercentFormatter

from analysis.figures.draw import LEFT, LEVEL_DASH, WIDE, Label, lines, write_labels
from analysis.figures.page import Canvas, Figure, Page, mark, provenance
from analysis.figures.style import (
    DOT,
    INK,
    LineStyle,
    size_axis,
    slug,
    style_of,
    value_axis,
    variant_order,
    write,
)
from analysis.load import Records
from analysis.selection import Query, Selection, name_variants, records_of, select
from experiments.data.metrics import ARITHMETIC

OPERATION = "attention"
QUERY = Query(262144, "bfloat16", operation=OPERATION)
TALL = (6.6, 5.9)
UPPER, LOWER = (0.545, 0.335), (0.135, 0.32)  # bottom and height of the panels
NEEDS = f"timed {OPERATION} rows at two or more N"
NAIVE, FOLDED, SOFTMAX = "attention_naive", "attention_naive_folded", "auto"
VALUES = "attention_values"
PARTS = {  # of the materialised form, in its order
    "q·kᵀ": style_of("fused").color,
    "scale": style_of("naive").color,
    "the softmax": style_of("auto").color,
    "p·v": style_of("online").color,
}
BAR = 1.22  # from its size to its ends, on a logarithm
ROOFS = {"flops": "matmul", "exponentials": "exponentials"}


def _pages(
    name: str,
    title: str,
    draw: Callable[..., None],
    ready: Callable[..., bool],
    size: tuple[float, float],
    *notes: str,
) -> Callable[[Records, pd.DataFrame], list[Page]]:
    """A picture for each GPU that timed attention and for which ``ready`` says so."""

    def pages(records: Records, frame: pd.DataFrame) -> list[Page]:
        found = []
        for gpu in sorted(frame["gpu"].unique()):
            shown = select(frame, gpu, QUERY)
            if shown is None or not ready(shown, frame):
                continue
            small = provenance(shown.recorded, shown.card.name, shown.timer, shown.cache)
            small += notes
            subtitle = DOT.join([shown.card.name, shown.dtype, f"M = {shown.at}", "D = 128"])
            drawn = partial(draw, shown=shown, frame=frame, records=records)
            page = f"{name}-{slug(gpu)}"
            found.append(Page(page, title, subtitle, small, drawn, size, gpu))
        return found

    return pages


def _axes(canvas: Canvas, shown: Selection, place: tuple[float, float]) -> Axes:
    ax = canvas.add_axes((LEFT + 0.012, place[0], WIDE - 0.012, place[1]))
    size_axis(ax, shown.sizes, "cols")
    ax.set_xlabel("keys of a query, N")
    return ax


def _line(ax: Axes, shown: Selection, values: pd.Series, text: str, style: LineStyle,
          **line: object) -> Label:  # fmt: skip
    """Draws values by N; returns the line's label."""
    values = values.reindex(shown.sizes).dropna()
    ax.plot(values.index, values, label=text, **{"color": style.color, "lw": 1.4} | line)  # type: ignore[arg-type]
    whole = values.index[-1] == shown.sizes[-1]
    return Label(text, values.index[-1], float(values.iloc[-1]), style, whole=whole)


# What it moves and holds.


def _draw_traffic(canvas: Canvas, shown: Selection, frame: pd.DataFrame, records: Records) -> None:
    upper, lower = (_axes(canvas, shown, place) for place in (UPPER, LOWER))
    labels, held, counted = [], [], ""
    own, counters = shown.own, records.counters_of(shown.gpu).values()
    for variant in sorted(own["variant"].unique(), key=variant_order):
        rows = own[own["variant"] == variant].set_index("cols")
        style, plain = style_of(variant.split(" ")[0]), LineStyle(style_of(variant).color, "")
        asked, least = (rows[n] / rows["rows"] / 1e3 for n in ("model_bytes", "compulsory_bytes"))
        again = (rows["model_reads"] > rows["compulsory_bytes"] / shown.item_bytes).any()
        online = variant.startswith("attention_online")
        if not again:
            continue  # a library's, whose model is no more than nominal
        labels.append(_line(upper, shown, least if online else asked, variant, plain, zorder=3))
        if online:
            text = f"{variant}, asked of L2"
            labels.append(_line(upper, shown, asked, text, plain, ls=LEVEL_DASH, lw=1.1))
        seen = [
            (c.cols, (c.dram_read_bytes + c.dram_write_bytes) / c.rows / 1e3, c.model_dump())
            for c in counters
            if c.kernel == variant and c.dtype == shown.dtype and c.cols in shown.sizes
        ]
        if seen:
            x, y, found = zip(*seen, strict=True)
            upper.plot(x, y, label="counters", zorder=4, **style.dots(hollow=True, mew=0.9))
            mark(upper, x, y, found)
            counted = "; open: counters"
    for variant in sorted(own["variant"].unique(), key=variant_order):
        rows = own[own["variant"] == variant].set_index("cols")
        if rows["peak_bytes"].notna().any():
            style = style_of(variant.split(" ")[0])
            each = rows["peak_bytes"] / rows["rows"] / 1e3
            held.append(_line(lower, shown, each, variant, style, **style.dots(ls="-", mew=0.6)))
            mark(lower, each.index, each, records_of(rows.reset_index()))
    for ax, found, text in (
        (upper, labels, f"modelled KB per query at DRAM{counted} (lower is better)"),
        (lower, held, "most memory of a call, KB per query (lower is better)"),
    ):
        ax.set_yscale("log", base=10)
        value_axis(ax, text)
        write_labels(ax, found, 0.085)
    if not held:
        write(lower, 0.5, 0.5, "no row has a call's memory", ha="center")
    upper.set_xlabel("")


# How long it takes, and what bounds that.


def roofs_of(shown: Selection, frame: pd.DataFrame) -> dict[str, pd.Series]:
    """By roof the least time in µs that attention takes there by N; only those that were timed.

    Its memory's roof moves q, k, v and y; those of arithmetic do as much of it and nothing else.
    """
    own = shown.own.groupby("cols").first()
    found = {}
    if own["roof_gbps"].notna().any():
        found[f"{shown.roof} roof"] = own["compulsory_bytes"] / own["roof_gbps"] / 1e3
    sweeps = shown.own["sweep"].unique()
    near = frame[(frame["operation"] == frame["roof"]) & frame["sweep"].isin(sweeps)]
    near = near[(near["gpu"] == shown.gpu) & (near["rows"] == shown.at)]
    near = near[(near["dtype"] == shown.dtype) & (near["timer"] == shown.timer)]
    near = near[(near["cache"] == shown.cache) & (near["status"] == "ok") & near["time_us"].gt(0)]
    for work in ARITHMETIC:
        rates = (near[work] / near["time_us"]).groupby(near["cols"]).max().dropna()
        if len(rates):
            found[f"{ROOFS[work]} roof"] = (own[work] / rates).dropna()
    return found


def _draw_time(canvas: Canvas, shown: Selection, frame: pd.DataFrame, records: Records) -> None:
    upper, lower = (_axes(canvas, shown, place) for place in (UPPER, LOWER))
    upper.set_yscale("log", base=10)
    labels, roofs = lines(upper, shown, "time_us"), roofs_of(shown, frame)
    dashes = ("-", (0, (5, 2)), LEVEL_DASH)
    for (name, times), dash in zip(roofs.items(), dashes, strict=False):
        style = LineStyle(INK, "")
        labels.append(_line(upper, shown, times, name, style, ls=dash, zorder=2.8))
    value_axis(upper, "time, µs (lower is better)")
    write_labels(upper, labels, 0.075)
    upper.set_xlabel("")
    bound = pd.DataFrame(roofs).max(axis=1)
    share = shown.own["cols"].map(bound) / shown.own["time_us"]
    points = shown.own.assign(share=share)
    labels = lines(lower, Selection(**{**vars(shown), "points": points}), "share")
    lower.axhline(1, color=INK, lw=1.2, zorder=2.4)
    lower.set_ylim(0, max(1.1, 1.05 * float(np.nanmax(share))))
    value_axis(lower, "the longest of its roofs over the time (higher is better)")
    lower.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    write_labels(lower, labels, 0.08)


# Where the time of the materialised form goes.


def parts_of(shown: Selection, frame: pd.DataFrame) -> pd.DataFrame:
    """By N the µs of each of `PARTS`, where rows of one visit tell them.

    Softmax is `auto` on a matrix of the scores' form, p·v `VALUES`, the scale what folding it into
    q saves, and q·kᵀ the rest.
    """
    own = name_variants(shown.recorded)
    near = frame[(frame["gpu"] == shown.gpu) & (frame["status"] == "ok")]
    near = near[(near["rows"] == shown.at) & (near["dtype"] == shown.dtype)]
    near = near[(near["timer"] == shown.timer) & (near["cache"] == shown.cache)]
    near = near[near["sweep"].isin(own["sweep"].unique())]
    times = {
        kernel: near[near["kernel"] == kernel].groupby("cols")["time_us"].median()
        for kernel in (NAIVE, FOLDED, SOFTMAX, VALUES)
    }
    found = pd.DataFrame({
        "q·kᵀ": times[FOLDED] - times[SOFTMAX] - times[VALUES],
        "scale": times[NAIVE] - times[FOLDED],
        "the softmax": times[SOFTMAX],
        "p·v": times[VALUES],
    }).dropna()  # fmt: skip
    return found[(found > 0).all(axis=1)]


def _draw_parts(canvas: Canvas, shown: Selection, frame: pd.DataFrame, records: Records) -> None:
    ax = _axes(canvas, shown, (0.207, 0.6))
    parts = parts_of(shown, frame)
    shares = parts.div(parts.sum(axis=1), axis=0)
    x = shares.index.to_numpy(dtype=float)
    below = np.zeros(len(x))
    for name, color in PARTS.items():
        high = shares[name].to_numpy(dtype=float)
        ends = x / BAR, x * (BAR - 1 / BAR)
        ax.bar(ends[0], high, ends[1], below, align="edge", color=color, label=name, zorder=3)
        for cols, middle, share in zip(x, below + high / 2, high, strict=True):
            ax.text(cols, middle, f"{share:.0%}", ha="center", va="center", fontsize=7,
                    color="white", zorder=4)  # fmt: skip
        below += high
    ax.set_ylim(0, 1)
    ax.set_xlim(shown.sizes[0] / BAR**1.5, shown.sizes[-1] * BAR**1.5)
    value_axis(ax, f"share of the time of {NAIVE}")
    ax.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    middles = (shares.cumsum(axis=1) - shares / 2).iloc[-1]
    labels = [
        Label(name, shown.sizes[-1], float(middles[name]), LineStyle(color, ""), whole=False)
        for name, color in PARTS.items()
    ]
    write_labels(ax, labels)


def _moves(shown: Selection, frame: pd.DataFrame) -> bool:
    return bool((shown.own["model_bytes"] > shown.own["compulsory_bytes"]).any())


def _bounded(shown: Selection, frame: pd.DataFrame) -> bool:
    return len(roofs_of(shown, frame)) == 1 + len(ROOFS)


def _parted(shown: Selection, frame: pd.DataFrame) -> bool:
    return not parts_of(shown, frame).empty


ATTENTION_FIGURES = (
    Figure(
        "attention_traffic",
        f"attention_traffic needs {NEEDS}",
        _pages("attention_traffic", "Attention: what it moves, and the memory it needs",
               _draw_traffic, _moves, TALL),
        "Attention over the length of its sequences: KB per query at DRAM by the models and, "
        "open, by counters, and the most memory of a call: both grow with N where the scores are "
        "in memory.",
    ),
    Figure(
        "attention_time",
        f"attention_time needs {NEEDS}, and attention_io, matmul and exponentials beside them",
        _pages("attention_time", "Attention: time against three roofs",
               _draw_time, _bounded, TALL),
        "Time of attention over the length of its sequences against three measured roofs, its "
        "memory's, a matrix product's and exponentials', and the share of the longest.",
    ),
    Figure(
        "attention_parts",
        f"attention_parts needs timed rows of {NAIVE}, {FOLDED}, {SOFTMAX} and {VALUES} at one M "
        "and dtype",
        _pages("attention_parts", "Where the time of materialised attention goes", _draw_parts,
               _parted, (6.6, 3.9), "softmax: auto on an M×N matrix; p·v: by itself; scale: what "
               "folding it into q saves; q·kᵀ: the rest"),
        "The shares of matrix products, scale and softmax in the time of attention whose scores "
        "are in memory, by rows of its variants and of the softmax alone.",
    ),
)  # fmt: skip
