"""Many points as one number: the geometric mean of ratios, the worst point, how many fall short."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Sequence

import numpy as np

from analysis.limits.points import Point
from analysis.rounds import Interval
from analysis.student import critical

Rival = Callable[[Point], str | None]  # which variant stands over `auto` at a point, if any


def best(point: Point) -> str | None:
    """The fastest peer."""
    return point.best


def named(name: str) -> Rival:
    """One variant, wherever it was timed beside `auto`."""
    return lambda point: name if point.has(name) else None


def geomean(points: Sequence[Point], rival: Rival) -> Interval | None:
    """The geometric mean of a rival's times over those of `auto`, its unit the round.

    No time of `auto` counts as less than the copy's (`Point.held_to_roof`).
    The value is that of the points' medians. Its interval is mean ± t·s/√R of the logarithms of R
    rounds' own geometric means, taken over the points that have most rounds. Of a single round it
    runs from the mean of the points' lower ends to that of their upper ends.
    """
    known = [(point, name) for point in points if (name := rival(point)) is not None]
    if not known:
        return None
    ratios = [list(point.held_to_roof(name).values()) for point, name in known]
    value = _mean([float(np.median(one)) for one in ratios])
    most = max(map(len, ratios))
    if most == 1:
        each = [point.ratio(name) for point, name in known]
        return Interval(value, _mean([r.low for r in each]), _mean([r.high for r in each]), 1)
    rounds: dict[int, list[float]] = defaultdict(list)
    for one in ratios:
        if len(one) == most:
            for place, ratio in enumerate(one):
                rounds[place].append(ratio)
    logs = np.log([_mean(one) for one in rounds.values()])
    reach = critical(0.95, most - 1) * float(np.std(logs, ddof=1)) / math.sqrt(most)
    return Interval(value, value * math.exp(-reach), value * math.exp(reach), most)


def worst(points: Sequence[Point], rival: Rival) -> tuple[Point, Interval] | None:
    """The point with the least ratio."""
    known = [(point, point.ratio(name)) for point in points if (name := rival(point)) is not None]
    return min(known, key=lambda pair: pair[1].value, default=None)


def _mean(values: Sequence[float]) -> float:
    return math.exp(math.fsum(map(math.log, values)) / len(values))
