"""Rows of like measurements as numbers with intervals, paired with their neighbours.

The interval of a point is its row's: rank-based, 95 %, of the median. A ratio's goes from the
numerator's lower bound over the denominator's upper one to the opposite, which holds whatever the
two have in common; the geometric mean of many goes from that of their lower bounds to that of
their upper ones. All of them are wider than 95 % asks, and need no resampling.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace

import pandas as pd

from analysis.claims.band import Measure
from analysis.estimate import geometric_mean

VISIT = ["sweep", "card", "round", "timer", "cache"]
PLACE = ["rows", "cols", "dtype"]
Place = tuple[int, int, str]


@dataclass(frozen=True)
class Point:
    """A number at a place (M, N, dtype); None where a variant cannot run."""

    place: Place
    measure: Measure | None


def singles(rows: pd.DataFrame, column: str) -> dict[Hashable, list[Point]]:
    """Points by visit: one sweep, card, round and protocol."""
    told = rows[rows[column].notna()]
    return {
        visit: [Point(_place(row), _measure(row, label, column)) for label, row in mine.iterrows()]
        for visit, mine in told.groupby(VISIT, sort=True)
    }


def fullest(visits: dict[Hashable, list[Point]]) -> list[list[Point]]:
    """The visits that cover most places; the others would tell of another range."""
    most = max((len(points) for points in visits.values()), default=0)
    return [points for points in visits.values() if len(points) == most]


def ratios(top: pd.DataFrame, bottom: pd.DataFrame, column: str) -> list[Point]:
    """``top`` over ``bottom`` wherever one visit has both; of several visits the middle one."""
    found: dict[Place, list[Measure]] = {}
    bottoms = {
        (visit, point.place): point.measure
        for visit, points in singles(bottom, column).items()
        for point in points
    }
    for visit, points in singles(top, column).items():
        for point in points:
            other = bottoms.get((visit, point.place))
            if other is not None and point.measure is not None:
                found.setdefault(point.place, []).append(point.measure / other)
    return [Point(place, middle(found[place])) for place in sorted(found)]


def middle(visits: Sequence[Measure]) -> Measure:
    """Of repeated measures the middle one, with the interval that encloses all of them."""
    ordered = sorted(visits, key=lambda measure: measure.value)
    return Measure(
        ordered[(len(ordered) - 1) // 2].value,
        min(measure.low for measure in visits),
        max(measure.high for measure in visits),
        tuple(label for measure in visits for label in measure.rows),
    )


def geomean(measures: Sequence[Measure]) -> Measure:
    """The geometric mean."""
    value = geometric_mean(m.value for m in measures)
    low, high = (geometric_mean(getattr(m, end) for m in measures) for end in ("low", "high"))
    # equal numbers may differ by a rounding of exp and log
    return Measure(value, min(low, value), max(high, value), _all(measures))


def extreme(measures: Sequence[Measure], most: bool) -> Measure:
    """The highest or the lowest: its bounds are the highest or lowest of all bounds."""
    pick = max if most else min
    return Measure(
        pick(m.value for m in measures),
        pick(m.low for m in measures),
        pick(m.high for m in measures),
        _all(measures),
    )


def spread(measures: Sequence[Measure]) -> Measure:
    """The highest over the lowest, at least 1."""
    found = extreme(measures, True) / extreme(measures, False)
    return replace(found, low=max(found.low, 1.0), rows=_all(measures))


def _all(measures: Sequence[Measure]) -> tuple[int, ...]:
    return tuple(label for measure in measures for label in measure.rows)


def _place(row: pd.Series) -> Place:
    return int(row["rows"]), int(row["cols"]), str(row["dtype"])


def _measure(row: pd.Series, label: Hashable, column: str) -> Measure:
    """A row's column with its interval; a rate's bounds are the time's, the other way round."""
    value, time = float(row[column]), float(row["time_us"])
    low, high = (
        time if math.isnan(float(row[name])) else float(row[name])
        for name in ("time_low_us", "time_high_us")
    )
    assert isinstance(label, int)
    if column == "time_us":
        return Measure(value, low, high, (label,))
    return Measure(value, value * time / high, value * time / low, (label,))
