"""Predicted time (model bytes / roof) against measured time, and what is left a variant."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from analysis import style
from analysis.lines import variant_order
from analysis.palette import FAINT, INK, MUTED, look_of
from analysis.plate import Plate
from analysis.selection import records_of
from analysis.sheet import mark
from analysis.verdicts import EXPLAINED
from experiments.data.cards import card_of

RATIOS = (0.5, 1.0, 2.0)
NOTE = "grey: within 10 %; tick: a variant's median"


def predicted(points: pd.DataFrame, gpu: str, suffix: str) -> Plate | None:
    """The checked points of one card and protocol, all but the copies, which are the roof."""
    points = points[points["operation"] != "copy"]
    if points.empty:
        return None
    card, first = card_of(gpu), points.iloc[0]
    dtypes = ", ".join(sorted(points["dtype"].unique()))
    subtitle = f"{card.name}  ·  {dtypes}  ·  {len(points):,} points of all shapes"
    small = style.provenance(points, card.name, first["timer"], first["cache"], [NOTE])

    def draw(canvas: Canvas) -> None:
        _times(canvas.add_axes((0.088, 0.205, 0.44, 0.62)), points)
        _residuals(canvas.add_axes((0.70, 0.205, 0.28, 0.62)), points)

    title = "Predicted by traffic, and measured"
    return Plate(f"roofline_predicted-{suffix}", title, subtitle, small, draw, gpu=gpu)


def _variants(points: pd.DataFrame) -> list[str]:
    return sorted(points["variant"].unique(), key=variant_order)


def _times(ax: Axes, points: pd.DataFrame) -> None:
    ax.set_xscale("log")
    ax.set_yscale("log")
    both = points[["predicted_us", "time_us"]].to_numpy(dtype=float)
    ends = np.array([both.min() / 1.3, both.max() * 1.3])
    ax.plot(ends, ends, color=INK, lw=1.0, label="measured = predicted", zorder=2)
    ax.fill_between(ends, ends * (1 - EXPLAINED), ends * (1 + EXPLAINED), color=FAINT, lw=0)
    for variant in _variants(points):
        mine, look = points[points["variant"] == variant], look_of(variant.split(" ")[0])
        ax.plot(mine["predicted_us"], mine["time_us"], ls="", marker=look.marker, alpha=0.75,
                ms=0.62 * look.size, mfc=look.color, mec="white", mew=0.25, label=variant,
                zorder=3)  # fmt: skip
        mark(ax, mine["predicted_us"], mine["time_us"], records_of(mine))
    ax.set_xlim(*ends)
    ax.set_ylim(*ends)
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
        axis.set_minor_locator(NullLocator())
    style.value_axis(ax, "measured, µs")
    ax.set_xlabel("predicted, µs = model bytes / copy roof")


def _residuals(ax: Axes, points: pd.DataFrame) -> None:
    variants = _variants(points)
    ax.set_xscale("log", base=2)
    ax.axvspan(1 - EXPLAINED, 1 + EXPLAINED, color=FAINT, lw=0, zorder=0)
    ax.axvline(1, color=INK, lw=1.0, zorder=1)
    shift = np.random.default_rng(0)  # a fixed seed: a redraw is the same file
    for place, variant in enumerate(variants):
        ratio = points.loc[points["variant"] == variant, "ratio"].to_numpy(dtype=float)
        look = look_of(variant.split(" ")[0])
        y = place + shift.uniform(-0.28, 0.28, ratio.size)
        ax.plot(ratio, y, ls="", marker=".", ms=3.2, mfc=look.color, mec="none", alpha=0.55)
        mark(ax, ratio, y, records_of(points[points["variant"] == variant]))
        ax.vlines(np.median(ratio), place - 0.4, place + 0.4, color=INK, lw=1.4, zorder=4)
    ax.set_ylim(len(variants) - 0.4, -0.6)
    ax.set_yticks(range(len(variants)), variants, fontsize=7.5)
    for label, variant in zip(ax.get_yticklabels(), variants, strict=True):
        label.set_color(look_of(variant.split(" ")[0]).text_color)
    low, high = points["ratio"].min(), points["ratio"].max()
    ax.set_xlim(min(0.45, low / 1.1), max(2.2, high * 1.1))
    ax.xaxis.set_major_locator(FixedLocator([*RATIOS, *(2.0**e for e in range(2, 6))]))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}×"))
    ax.set_xlabel("measured / predicted")
    ax.text(0, 1.025, "residual", transform=ax.transAxes, fontsize=8, color=MUTED)
    for side in ("top", "right", "left"):
        ax.spines[side].set_visible(False)
