"""How far two timers differ at the same point: an offset in µs, a ratio, by time range."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pandas as pd

from analysis.load import Key, Records, key_of
from analysis.selection import records_of
from analysis.selftest.floor import EDGES_US

PROFILER = "profiler"  # the kernels' own time by hardware counters, without launch or gaps
ORDER = ("events", "graph", "host", PROFILER)
Times = Mapping[Key, float]


@dataclass(frozen=True)
class Agreement:
    """Two timers at the points of a time range that both have.

    Attributes:
        gpu: The driver's name.
        cache: Cold or warm.
        first: The timer that is held against the other.
        second: The other; its times place a point in a range.
        low_us: The range's lower end, µs.
        high_us: Its upper end, µs.
        times_us: The points' times by ``first`` and ``second``.
    """

    gpu: str
    cache: str
    first: str
    second: str
    low_us: float
    high_us: float
    times_us: tuple[tuple[float, float], ...]

    @property
    def offset_us(self) -> tuple[float, float, float]:
        """By how much ``first`` tells longer, µs: median, 5th and 95th percentile."""
        return _three([first - second for first, second in self.times_us])

    @property
    def ratio(self) -> tuple[float, float, float]:
        """``first`` over ``second``: the same."""
        return _three([first / second for first, second in self.times_us])


def agreements(frame: pd.DataFrame, evidence: Records) -> list[Agreement]:
    """Every two timers of one card and cache that share points.

    A point's time is the median over its rounds; twins are one point.
    """
    good = frame["status"].eq("ok") & frame["time_us"].gt(0) & frame["backend"].ne("interpreter")
    timed = frame[good & frame["timer"].notna()]
    made: list[Agreement] = []
    for (gpu, cache), mine in timed.groupby(["gpu", "cache"], sort=True):
        times = {str(timer): _times(rows) for timer, rows in mine.groupby("timer", sort=True)}
        if cache == "cold":  # the profiler empties all caches before each kernel
            counted = evidence.counters_of(str(gpu))
            times[PROFILER] = {key: float(c.kernel_us) for key, c in counted.items()}
        for i, first in enumerate(ORDER):
            for second in ORDER[i + 1 :]:
                both = (times.get(first, {}), times.get(second, {}))
                made += _by_range(str(gpu), str(cache), first, second, *both)
    return made


def _times(rows: pd.DataFrame) -> dict[Key, float]:
    known: dict[Key, list[float]] = {}
    for row in records_of(rows):
        kernel, _, _ = str(row["kernel"]).partition("-")
        known.setdefault(key_of(row | {"kernel": kernel}), []).append(float(row["time_us"]))
    return {key: float(np.median(times)) for key, times in known.items()}


def _by_range(
    gpu: str, cache: str, first: str, second: str, one: Times, other: Times
) -> Iterator[Agreement]:
    shared = sorted(set(one) & set(other), key=str)
    for low, high in pairwise(EDGES_US):
        mine = tuple((one[key], other[key]) for key in shared if low <= other[key] < high)
        if mine:
            yield Agreement(gpu, cache, first, second, low, high, mine)


def _three(values: Sequence[float]) -> tuple[float, float, float]:
    middle, low, high = np.percentile(values, [50, 5, 95])
    return float(middle), float(low), float(high)
