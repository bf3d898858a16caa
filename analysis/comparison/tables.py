"""A comparison as tables: kernels, the points that changed, and every point for machines."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from itertools import groupby

from analysis.comparison.pairs import Visits
from analysis.comparison.ranges import beyond_floor
from analysis.comparison.verdicts import VERDICTS, Asked, Compared
from analysis.estimate import geometric_mean
from analysis.format import Cell, Table
from analysis.lines import variant_order

CHANGED = ("failed", "slower", "faster", "fixed")
HEADS = ("GPU", "operation", "kernel", "variant", "M", "N", "dtype", "timer", "cache", "card",
         "verdict", "regression", "base_us", "head_us", "ratio", "low", "high", "all_low",
         "all_high", "p_holm", "base_rounds", "head_rounds", "base_status", "head_status",
         "suspect", "reason", "beyond_floor")  # fmt: skip


def by_kernel(found: Sequence[Compared]) -> dict[str, list[Compared]]:
    """What was compared, by variant in the order of all figures."""
    order = sorted(found, key=lambda one: variant_order(one.pair.place["variant"]))
    return {name: list(g) for name, g in groupby(order, lambda one: one.pair.place["variant"])}


def mean_ratio(found: Sequence[Compared]) -> float:
    """The geometric mean over points with two times; NaN where there are none."""
    return geometric_mean(one.ratio for one in found if one.ratio > 0)


def kernels_table(found: Sequence[Compared], notes: Sequence[str]) -> Table:
    """A line a kernel: verdicts, the geometric mean of time HEAD / BASE, the extremes."""
    seen = [v for v in VERDICTS if any(one.verdict == v for one in found)]
    lines = [_kernel_line(name, mine, seen) for name, mine in by_kernel(found).items()]
    if len(lines) > 1:
        lines.append(_kernel_line("all", found, seen))
    heads = ["kernel", "points", *seen, "mean ratio", "least", "most"]
    return Table("Time of HEAD / BASE, by kernel", heads, lines, notes)


def changed_table(found: Sequence[Compared]) -> Table:
    """The points that changed, regressions first, the largest change first."""
    changed = [one for one in found if one.verdict in CHANGED]
    changed.sort(key=lambda one: (not one.regression, CHANGED.index(one.verdict), -_size(one)))
    lines = [
        [
            one.pair.name,
            Cell(one.verdict, strong=one.regression),
            _time(one.pair.base),
            _time(one.pair.head),
            ratio_text(one.ratio),
            f"{ratio_text(one.all_low)}–{ratio_text(one.all_high)}" if one.all_low > 0 else "–",
            _statuses(one),
        ]
        for one in changed
    ]
    heads = ["point", "verdict", "BASE µs", "HEAD µs", "ratio", "interval", "status"]
    return Table("Points that changed", heads, lines)


def points_table(found: Sequence[Compared]) -> Table:
    """Every point of both, for machines."""
    lines = [
        [*_machine_line(one), "true" if beyond else "false"]
        for one, beyond in zip(found, beyond_floor(found), strict=True)
    ]
    return Table("Every point", HEADS, lines)


def notes_of(asked: Asked) -> list[str]:
    """What a reader must know of the verdicts."""
    return [
        f"same: the {100 * (1 - asked.alpha):g} % interval lies within {100 * asked.threshold:g} % "
        f"of 1. slower, faster: different at a family-wise error of {asked.alpha:g} over all "
        "points (Holm), and by more than what 5 % of points differ by when equal code is measured "
        "twice. unclear: neither. Bold: a regression, surely slower by more, or ok no more.",
        "Intervals hold for all points at once (Bonferroni). Mean ratio: the geometric mean.",
    ]


def ratio_text(ratio: float) -> str:
    """Three decimals."""
    return f"{ratio:.3f}" if math.isfinite(ratio) else "–"


def _size(one: Compared) -> float:
    return abs(math.log(one.ratio)) if one.ratio > 0 else math.inf


def _kernel_line(name: str, found: Sequence[Compared], seen: Sequence[str]) -> list[str]:
    counts = Counter(one.verdict for one in found)
    ratios = [one.ratio for one in found if one.ratio > 0]
    ends = [ratio_text(f(ratios)) if ratios else "–" for f in (min, max)]
    told = [f"{counts[v]:,}" if counts[v] else "" for v in seen]
    return [name, f"{len(found):,}", *told, ratio_text(mean_ratio(found)), *ends]


def _time(visits: Visits | None) -> str:
    return f"{_middle(visits):,.2f}" if visits and visits.timed else "–"


def _middle(visits: Visits) -> float:
    return geometric_mean(row["time_us"] for row in visits.timed)


def _statuses(one: Compared) -> str:
    base, head = one.pair.base, one.pair.head
    assert base is not None
    assert head is not None
    told = base.status if base.status == head.status else f"{base.status} → {head.status}"
    return f"{told} ({head.reason})" if head.reason and one.verdict == "failed" else told


def _machine_line(one: Compared) -> list[str]:
    base, head, place = one.pair.base, one.pair.head, one.pair.place
    assert base is not None
    assert head is not None
    numbers = [one.ratio, one.low, one.high, one.all_low, one.all_high, one.p_holm]
    return [
        *(
            str(place[n])
            for n in ("gpu", "operation", "kernel", "variant", "rows", "cols", "dtype")
        ),
        *(str(place[n] or "") for n in ("timer", "cache")),
        str(place["card"]),
        one.verdict,
        "true" if one.regression else "false",
        *(f"{_middle(v):.6g}" if v.timed else "" for v in (base, head)),
        *(f"{value:.6g}" if math.isfinite(value) else "" for value in numbers),
        *(str(len(v.timed)) for v in (base, head)),
        base.status,
        head.status,
        "true" if base.suspect or head.suspect else "false",
        head.reason or base.reason,
    ]
