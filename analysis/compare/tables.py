"""A comparison as tables: kernels, time ranges, the points that changed, and every point.

All take points as `analysis.compare.points.judged` gives them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd

from analysis.compare.points import ALPHA, VERDICTS
from analysis.estimate import geometric_mean, log_reach
from analysis.figures.style import variant_order
from analysis.format import Cell, Table, number_text

CHANGED = ("failed", "slower", "faster", "fixed")
HEADS = ("GPU", "operation", "kernel", "variant", "M", "N", "dtype", "timer", "cache", "card",
         "verdict", "regression", "base_us", "head_us", "ratio", "low", "high", "all_low",
         "all_high", "p_holm", "base_rounds", "head_rounds", "base_status", "head_status",
         "suspect", "reason", "beyond_floor")  # fmt: skip
EDGES_US = (0.0, 20.0, 50.0, 100.0, 200.0, 500.0, math.inf)
EXPECTED = 0.05  # share of equal points beyond the floor, by how a floor is recorded
BEYOND = (
    "Beyond the floor: points that differ by more than what 5 % of points differ by when equal "
    "code is swept twice on one card, one round each. Mean ratio: geometric, its 95 % interval "
    "over points."
)


def by_kernel(points: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """The points of each variant, in the order of all figures."""
    groups = {str(name): mine for name, mine in points.groupby("variant", sort=False)}
    return {name: groups[name] for name in sorted(groups, key=variant_order)}


def mean_ratio(points: pd.DataFrame) -> float:
    """The geometric mean of HEAD / BASE over points with two times; NaN where there are none."""
    return geometric_mean(points["ratio"].dropna())


def kernels_table(points: pd.DataFrame, notes: Sequence[str], threshold: float) -> Table:
    """A line per kernel: verdicts, the geometric mean of time HEAD / BASE, the extremes."""
    said = [
        f"same: the {100 * (1 - ALPHA):g} % interval lies within {100 * threshold:g} % of 1. "
        f"slower, faster: different at a family-wise error of {ALPHA:g} over all points (Holm), "
        "and by more than what 5 % of points differ by when equal code is measured twice. "
        "unclear: neither. Bold: a regression, significantly slower by more, or no longer ok.",
        "Intervals hold for all points at once (Bonferroni). Mean ratio: the geometric mean.",
    ]
    seen = [verdict for verdict in VERDICTS if verdict in set(points["verdict"])]
    groups = by_kernel(points)
    if len(groups) > 1:
        groups["all"] = points
    lines = []
    for name, mine in groups.items():
        counts = [int(mine["verdict"].eq(verdict).sum()) for verdict in seen]
        ratios = [mean_ratio(mine), mine["ratio"].min(), mine["ratio"].max()]
        verdicts = [f"{count:,}" if count else "" for count in counts]
        lines.append([name, f"{len(mine):,}", *verdicts, *map(ratio_text, ratios)])
    heads = ["kernel", "points", *seen, "mean ratio", "least", "most"]
    return Table("Time of HEAD / BASE, by kernel", heads, lines, [*notes, *said])


def ranges_table(points: pd.DataFrame) -> Table:
    """A line per range of times of BASE, with one of all points of 20 µs and more at the end.

    Two sets that differ in nothing that matters, such as a card alone and the same card beside
    others at work, have 5 % of their points beyond the floor, and a mean ratio of 1 in every range.
    """
    timed = points[points["ratio"].notna()]
    times = np.exp(timed["base_log"])
    lines = []
    for low, high in [*pairwise(EDGES_US), (EDGES_US[1], math.inf)]:
        mine = timed[(times >= low) & (times < high)]
        if mine.empty:
            continue
        ratios, count = mine["ratio"], len(mine)
        mean, factor = geometric_mean(ratios), math.exp(log_reach(ratios)) if count > 1 else 1.0
        ends = f"{mean / factor:.4f}–{mean * factor:.4f}" if count > 1 else "–"
        beyond = f"{int(mine['beyond_floor'].sum()):,}"
        lines.append([_range_text(low, high), f"{count:,}", f"{mean:.4f}", ends,
                      f"{ratios.min():.4f}", f"{ratios.max():.4f}", beyond,
                      f"{EXPECTED * count:.1f}"])  # fmt: skip
    heads = ["time of BASE", "points", "mean ratio", "interval", "least", "most",
             "beyond the floor", "expected"]  # fmt: skip
    return Table("Time of HEAD / BASE, by time range", heads, lines, [BEYOND])


def changed_table(points: pd.DataFrame) -> Table:
    """The points that changed, regressions first, the largest change first."""
    changed = points[points["verdict"].isin(CHANGED)]
    order = pd.DataFrame({
        "kept": ~changed["regression"],
        "verdict": changed["verdict"].map(CHANGED.index),
        "size": -np.log(changed["ratio"]).abs().fillna(math.inf),
    })  # fmt: skip
    changed = changed.loc[order.sort_values(["kept", "verdict", "size"], kind="stable").index]
    lines = []
    for one in lines_of(changed):
        times = [number_text(math.exp(log), 2) for log in (one.base_log, one.head_log)]
        ends = f"{ratio_text(one.all_low)}–{ratio_text(one.all_high)}" if one.all_low > 0 else "–"
        status = " → ".join(dict.fromkeys([one.base_status, one.head_status]))
        if one.head_reason and one.verdict == "failed":
            status += f" ({one.head_reason})"
        lines.append([name_of(one), Cell(one.verdict, strong=one.regression), *times,
                      ratio_text(one.ratio), ends, status])  # fmt: skip
    heads = ["point", "verdict", "BASE µs", "HEAD µs", "ratio", "interval", "status"]
    return Table("Points that changed", heads, lines)


def points_table(points: pd.DataFrame) -> Table:
    """Every point of both sets, for machines."""
    every = points.assign(
        base_us=np.exp(points["base_log"]),
        head_us=np.exp(points["head_log"]),
        suspect=points["base_suspect"].eq(True) | points["head_suspect"].eq(True),
        reason=points["head_reason"].where(points["head_reason"].ne(""), points["base_reason"]),
    )
    every = every.rename(columns={"gpu": "GPU", "rows": "M", "cols": "N"})
    return Table.of("Every point", every[list(HEADS)])


def ratio_text(ratio: float) -> str:
    """Three decimals."""
    return number_text(ratio, 3)


def lines_of(points: pd.DataFrame) -> list[Any]:
    """The lines of a table as named tuples."""
    return list(points.itertuples(index=False))


def name_of(one: Any) -> str:
    """A point in words."""
    return f"{one.variant} {one.rows}×{one.cols} {one.dtype}"


def _range_text(low: float, high: float) -> str:
    if math.isinf(high):
        return f"{low:g} µs and more"
    return f"{low:g} to {high:g} µs" if low else f"below {high:g} µs"
