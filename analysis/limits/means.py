"""Many points as one number: the geometric mean of ratios, the worst point, how many fall short."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Sequence

import numpy as np

from analysis.estimate import Estimate, geometric_mean, log_reach
from analysis.limits.points import Point

Rival = Callable[[Point], str | None]  # which variant stands over `auto` at a point, if any


def best(point: Point) -> str | None:
    """The fastest peer."""
    return point.best


def named(name: str) -> Rival:
    """One variant, wherever it was timed beside `auto`."""
    return lambda point: name if point.has(name) else None


def geomean(points: Sequence[Point], rival: Rival) -> Estimate | None:
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
    value = geometric_mean(float(np.median(one)) for one in ratios)
    most = max(map(len, ratios))
    if most == 1:
        each = [point.ratio(name) for point, name in known]
        low, high = (geometric_mean(getattr(r, end) for r in each) for end in ("low", "high"))
        return Estimate(value, low, high)
    rounds: dict[int, list[float]] = defaultdict(list)
    for one in ratios:
        if len(one) == most:
            for place, ratio in enumerate(one):
                rounds[place].append(ratio)
    factor = math.exp(log_reach(map(geometric_mean, rounds.values())))
    return Estimate(value, value / factor, value * factor, most)


def worst(points: Sequence[Point], rival: Rival) -> tuple[Point, Estimate] | None:
    """The point with the least ratio."""
    known = [(point, point.ratio(name)) for point in points if (name := rival(point)) is not None]
    return min(known, key=lambda pair: pair[1].value, default=None)
