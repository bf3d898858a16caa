"""Every statistic of times: intervals, ratios, geometric means, rounds, t and Holm's correction.

The samples of one visit share the state of the machine, and the rounds of one recording share its
card, host and driver. So an interval is over the highest level that varies (Kalibera & Jones,
ISMM'13): over recordings if there are several, else over rounds. There are few of either, so it is
Student's t interval of their logarithms; resampling three values would add nothing. A single round
gives only its own interval, which says nothing about other rounds.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import truediv
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special  # scipy.stats calls the same functions and takes four times as long

from experiments.data import statistics

RESOLUTION_US = 0.032  # step of CUDA events on an H200, used where samples show no step
Rounds = Sequence[Sequence[float]]  # the samples of each round, µs
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Estimate:
    """A number with its interval, in its unit, and the rows behind it."""

    value: float
    low: float
    high: float
    labels: tuple[int, ...] = ()  # of the rows, where they are asked for

    def __truediv__(self, other: Estimate) -> Estimate:
        """The ratio of two positive numbers, with the widest interval that both allow.

        The upper end is infinite if the divisor may be zero, as a difference of times may.
        """
        ends = self.low / other.high, self.high / other.low if other.low > 0 else math.inf
        return Estimate(self.value / other.value, *ends, self.labels + other.labels)

    def of(self, labels: Iterable[int]) -> Self:
        """The same estimate, with the labels of its rows."""
        return replace(self, labels=tuple(map(int, labels)))


def geometric_mean(values: Iterable[float]) -> float:
    """The geometric mean of positive numbers, as ratios are averaged; NaN if there are none."""
    logs = [math.log(value) for value in values]
    return math.exp(math.fsum(logs) / len(logs)) if logs else math.nan


def log_reach(values: Iterable[float]) -> float:
    """Half the width of the 95 % t interval of the mean logarithm of two or more numbers."""
    logs = np.log(np.asarray(list(values), float))
    error = float(np.std(logs, ddof=1)) / math.sqrt(logs.size)
    return float(quantile(0.025, logs.size - 1)) * error


def over_recordings(recordings: Iterable[Sequence[float]], resolution: float = 0.0) -> Estimate:
    """The geometric mean of positive numbers such as ratios of times, with its 95 % t interval.

    Each of several recordings contributes the geometric mean of its rounds, and the interval is
    over recordings. For one recording it is over rounds and says nothing of other hosts.

    ``resolution`` is the part of the uncertainty, as a logarithm, that more rounds do not reduce.
    """
    known = [list(rounds) for rounds in recordings]
    means = list(map(geometric_mean, known))
    units = known[0] if len(known) == 1 else means
    if len(units) < 2:
        raise ValueError("an interval over rounds or recordings needs two of them")
    value, factor = geometric_mean(units), math.exp(math.hypot(log_reach(units), resolution))
    return Estimate(value, value / factor, value * factor)


def of_rounds(*timed: Rounds, recordings: Sequence[Hashable] | None = None) -> Estimate:
    """The geometric mean over rounds: of one variant's medians, µs, or of two variants' ratios.

    The variants of a round are timed close together, so what slows both cancels in the ratio. The
    interval comes from `over_recordings`; for a single round it is the round's own. ``timed`` has
    each round's samples, µs, of one variant or two; ``recordings`` names their recordings.
    """
    if not timed[0] or not all(len(samples) for rounds in timed for samples in rounds):
        raise ValueError("statistics of rounds need a round, and samples in each")
    if len(timed[0]) == 1:
        own = [statistics.median(rounds[0]) for rounds in timed]
        return reduce(truediv, [Estimate(one.value, one.low, one.high) for one in own])
    medians = [np.array([np.median(samples) for samples in rounds]) for rounds in timed]
    found: dict[Hashable, list[float]] = {}
    values = reduce(truediv, medians).tolist()
    for name, value in zip(recordings or [None] * len(values), values, strict=True):
        found.setdefault(name, []).append(value)
    # a median resolves at best half a step of the timer; the step is the least distance between two
    # samples rounded to 1 ns
    resolution = 0.0
    for rounds, one in zip(timed, medians, strict=True):
        apart = np.diff(np.unique(np.round(np.concatenate(rounds), 3)))
        step = float(apart.min()) if apart.size else RESOLUTION_US
        resolution += min(step / geometric_mean(one), 1.0) / 2
    return over_recordings(found.values(), resolution)


def quantile(level: ArrayLike, df: ArrayLike) -> Floats:
    """The t that a share ``level`` (at most one half) of Student's distribution exceeds."""
    return np.asarray(-special.stdtrit(df, level))


def holm(p: Floats) -> Floats:
    """Holm's adjusted p values: rejecting those up to alpha bounds the family-wise error by it."""
    order = np.argsort(p, kind="stable")
    adjusted = np.empty_like(p)
    adjusted[order] = np.maximum.accumulate(np.arange(p.size, 0, -1) * p[order]).clip(max=1.0)
    return adjusted
