"""The shared look: type, axes of powers of two, title, small print."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable
from typing import Any

import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, MaxNLocator, NullLocator

from analysis.palette import FAINT, INK, MUTED
from analysis.selection import Selection
from analysis.typeface import typeface

TIMERS = {"events": "CUDA events", "graph": "CUDA graph", "host": "host clock"}
CACHES = {"cold": "cold cache", "warm": "warm cache"}
SYMBOLS = {"cols": "N", "rows": "M"}


def theme() -> Any:
    """Settings for ``matplotlib.rc_context``; the salt makes the ids of an SVG repeatable."""
    return dict(sns.axes_style("ticks")) | {
        "svg.hashsalt": "softmax-roofline",
        "font.family": "sans-serif",
        "font.sans-serif": [typeface()],
        "font.size": 8.5,
        "text.parse_math": False,  # a dollar in a recorded name is a dollar
        "axes.edgecolor": MUTED,
        "axes.labelcolor": INK,
        "axes.labelsize": 8.5,
        "axes.linewidth": 0.7,
        "text.color": INK,
        "xtick.color": MUTED,
        "ytick.color": MUTED,
        "xtick.labelcolor": INK,
        "ytick.labelcolor": INK,
        "xtick.labelsize": 8,
        "ytick.labelsize": 8,
        "xtick.major.size": 3,
        "ytick.major.size": 0,
        "grid.color": FAINT,
        "grid.linewidth": 0.7,
    }


def power_axis(ax: Axes, view: Selection, ticks: int = 11) -> None:
    """A log2 x axis over the view's sizes, with up to ``ticks`` ticks at powers of two."""
    low, high = view.sizes[0], view.sizes[-1]
    ax.set_xscale("log", base=2)
    ax.set_xlim(low * (low / high) ** 0.03, high * (high / low) ** 0.015)  # room for a marker
    exponents = range(math.ceil(math.log2(max(low, 1))), math.floor(math.log2(high)) + 1)
    step = 1 + (len(exponents) - 1) // ticks
    ax.xaxis.set_major_locator(FixedLocator([2.0**e for e in exponents[::step]]))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: size_label(value)))
    ax.set_xlabel({"cols": "row width N, elements", "rows": "rows M"}[view.query.over])


def value_axis(ax: Axes, label: str) -> None:
    """The y axis: named above it, a quiet grid, no spine to compete with the lines."""
    if ax.get_yscale() == "linear":
        ax.yaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10]))
    else:
        low, high = ax.get_ylim()
        ax.yaxis.set_major_locator(LogLocator(subs=(1,) if high > 300 * low else (1, 2, 5)))
    ax.yaxis.set_minor_locator(NullLocator())
    ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
    ax.set_ylabel("")
    ax.text(0, 1.025, label, transform=ax.transAxes, fontsize=8, color=MUTED, ha="left")
    ax.grid(axis="y", zorder=0)
    ax.set_axisbelow(True)
    sns.despine(ax=ax, left=True)


def ratio_axis(ax: Axes, label: str) -> None:
    """A log2 y axis of ratios: twice as fast stands as far above 1 as half as fast below."""
    low, high = ax.get_ylim()
    ax.set_ylim(min(low, 0.93), max(high, 1.08))
    value_axis(ax, label)
    whole = [n for e in range(8) for n in (2**e, 3 * 2**e)]
    ax.yaxis.set_major_locator(FixedLocator([*(1 / n for n in whole), *whole]))
    ax.yaxis.set_major_formatter(
        FuncFormatter(lambda v, _: f"1/{1 / v:.0f}×" if v < 1 else f"{v:.0f}×")
    )


def subtitle(view: Selection) -> str:
    """On what: GPU, dtype and the fixed size."""
    fixed = "M" if view.query.over == "cols" else "N"
    return f"{view.card.name}  ·  {view.dtype}  ·  {fixed} = {view.at}"


def small_print(view: Selection, notes: Iterable[str] = ()) -> list[str]:
    """Where the figure comes from, two lines: protocol and versions, then commit and rows."""
    return provenance(view.recorded, view.card.name, view.timer, view.cache, notes)


def provenance(
    seen: pd.DataFrame, card: str, timer: str, cache: str, notes: Iterable[str] = ()
) -> list[str]:
    """The same of any rows ``seen`` that share a card and a protocol."""
    once = {id(told): told for told in seen["environment"]}  # which many rows share
    facts = pd.DataFrame(list(once.values()))

    def stated(name: str) -> str:
        values = list(facts[name].dropna()) if name in facts else []
        told = ("".join(filter(str.isprintable, str(value)))[:12] for value in values)
        return "/".join(dict.fromkeys(told))

    versions = [f"{name} {stated(name)}" for name in ("torch", "triton", "driver") if stated(name)]
    protocol = f"median, 95 % interval; {TIMERS[timer]}, {CACHES[cache]}"
    commit = stated("commit") or "unknown"
    edited = " (edited)" if "True" in stated("dirty") else ""
    rows = f"rows {rows_hash(seen)} ({len(seen)})"
    return [
        "  ·  ".join([card, protocol, *versions]),
        "  ·  ".join([f"commit {commit}{edited}", rows, *notes]),
    ]


def rows_hash(frame: pd.DataFrame) -> str:
    """A short hash of which rows these are and what they measured, in whatever order they come."""
    columns = ["sweep", "key", "card", "round", "attempt", "status", "time_us"]
    lines = sorted(map(" ".join, zip(*(map(str, frame[c].tolist()) for c in columns), strict=True)))
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:12]


def size_label(value: float) -> str:
    """A size as the field writes it: 512, 4K, 1M (binary)."""
    for unit, letter in ((2**20, "M"), (2**10, "K")):
        if value >= unit and value % unit == 0:
            return f"{value / unit:g}{letter}"
    return f"{value:g}"
