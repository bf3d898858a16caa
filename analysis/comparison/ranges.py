"""Time of HEAD / BASE by time range, and how many points lie beyond the recorded noise floor.

Two sets that differ in nothing that matters, such as a card alone and the same card beside others
at work, have 5 % of their points beyond it, and a mean ratio of 1 in every range.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from analysis.comparison import noise
from analysis.comparison.verdicts import Compared
from analysis.estimate import geometric_mean, log_reach
from analysis.format import Table

EDGES_US = (0.0, 20.0, 50.0, 100.0, 200.0, 500.0, math.inf)
EXPECTED = 0.05  # of equal points, by how a floor is recorded
NOTE = (
    "Beyond the floor: points that differ by more than what 5 % of points differ by when equal "
    "code is swept twice on one card, one round each. Mean ratio: geometric, its 95 % interval "
    "over points."
)


def ranges_table(found: Sequence[Compared]) -> Table:
    """A line a range of times of BASE; one of all points of 20 µs and more at the end."""
    timed = [one for one in found if one.ratio > 0 and one.pair.timed]
    times = np.array([_time_us(one) for one in timed])
    ratios = np.array([one.ratio for one in timed])
    beyond = np.array(beyond_floor(timed))
    lines = []
    for low, high in [*pairwise(EDGES_US), (EDGES_US[1], math.inf)]:
        here = (times >= low) & (times < high)
        if here.any():
            lines.append([_told(low, high), *_cells(ratios[here], beyond[here])])
    heads = ["time of BASE", "points", "mean ratio", "interval", "least", "most",
             "beyond the floor", "expected"]  # fmt: skip
    return Table("Time of HEAD / BASE, by time range", heads, lines, [NOTE])


def beyond_floor(found: Sequence[Compared]) -> list[bool]:
    """Whether each point differs by more than what 5 % of equal points differ by."""
    timed = [one for one in found if one.ratio > 0 and one.pair.timed]
    times = np.array([_time_us(one) for one in timed])
    floors = noise.at(noise.recorded()[1], times)[2] if timed else times
    known = {id(one): abs(math.log(one.ratio)) > floor
             for one, floor in zip(timed, floors, strict=True)}  # fmt: skip
    return [bool(known.get(id(one))) for one in found]


def _time_us(one: Compared) -> float:
    assert one.pair.base is not None
    return geometric_mean(row["time_us"] for row in one.pair.base.timed)


def _told(low: float, high: float) -> str:
    if math.isinf(high):
        return f"{low:g} µs and more"
    return f"{low:g} to {high:g} µs" if low else f"below {high:g} µs"


def _cells(ratios: np.ndarray, beyond: np.ndarray) -> list[str]:
    mean, count = geometric_mean(ratios), ratios.size
    factor = math.exp(log_reach(ratios)) if count > 1 else 1.0
    ends = f"{mean / factor:.4f}–{mean * factor:.4f}" if count > 1 else "–"
    return [
        f"{count:,}",
        f"{mean:.4f}",
        ends,
        f"{ratios.min():.4f}",
        f"{ratios.max():.4f}",
        f"{int(beyond.sum()):,}",
        f"{EXPECTED * count:.1f}",
    ]
