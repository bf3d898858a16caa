"""Every statistic of times: intervals, ratios, geometric means, rounds, t and Holm's correction.

The samples of one visit share the machine's state of that moment, and rounds their recording's
card, host and driver. So an interval is of the highest level that varies (Kalibera & Jones,
ISMM'13): of recordings where there are several, else of rounds. Both are few, so their logarithms
get Student's t interval: resampling three values gives nothing beyond the three. Of a single round
every function gives the row's own interval, which describes no other round.
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

RESOLUTION_US = 0.032  # of CUDA events on an H200; what is taken where samples do not show it
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

        It has no upper end where the divisor may be nothing, as a difference of times may.
        """
        ends = self.low / other.high, self.high / other.low if other.low > 0 else math.inf
        return Estimate(self.value / other.value, *ends, self.labels + other.labels)

    def of(self, labels: Iterable[int]) -> Self:
        """The same, of the rows with these labels."""
        return replace(self, labels=tuple(map(int, labels)))


def geometric_mean(values: Iterable[float]) -> float:
    """The geometric mean of positive numbers, as ratios are averaged; NaN of none."""
    logs = [math.log(value) for value in values]
    return math.exp(math.fsum(logs) / len(logs)) if logs else math.nan


def log_reach(values: Iterable[float]) -> float:
    """Half the 95 % t interval of the mean logarithm of two or more positive numbers."""
    logs = np.log(np.asarray(list(values), float))
    error = float(np.std(logs, ddof=1)) / math.sqrt(logs.size)
    return float(quantile(0.025, logs.size - 1)) * error


def over_recordings(recordings: Iterable[Sequence[float]], resolution: float = 0.0) -> Estimate:
    """The geometric mean of positive numbers such as ratios of times, with its 95 % t interval.

    Of several recordings each counts with the geometric mean of its rounds, and the interval is of
    these. Of one recording it is of its rounds, and says nothing of another card or host.

    ``resolution`` is what the number is uncertain by however many rounds agree, as a logarithm.
    """
    known = [list(rounds) for rounds in recordings]
    means = list(map(geometric_mean, known))
    units = known[0] if len(known) == 1 else means
    if len(units) < 2:
        raise ValueError("an interval over rounds or recordings needs two of them")
    value, factor = geometric_mean(units), math.exp(math.hypot(log_reach(units), resolution))
    return Estimate(value, value / factor, value * factor)


def of_rounds(*timed: Rounds, recordings: Sequence[Hashable] | None = None) -> Estimate:
    """The geometric mean over rounds of the medians of one, µs, or of the ratios first / second.

    The variants of one round are neighbours in time, so what moves both leaves the ratio alone. The
    interval comes from `over_recordings`; of a single round it is the round's own. ``timed`` has
    the samples of each round, µs, of one variant or of two; ``recordings`` says whose each is.
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
    # medians are whole steps of the timer, the least distance of two samples, to 1 ns: half a step
    # of each is what they resolve at best
    resolution = 0.0
    for rounds, one in zip(timed, medians, strict=True):
        apart = np.diff(np.unique(np.round(np.concatenate(rounds), 3)))
        step = float(apart.min()) if apart.size else RESOLUTION_US
        resolution += min(step / geometric_mean(one), 1.0) / 2
    return over_recordings(found.values(), resolution)


def quantile(level: ArrayLike, df: ArrayLike) -> Floats:
    """The t above which lies a share ``level`` (at most one half) of the distribution."""
    return np.asarray(-special.stdtrit(df, level))


def holm(p: Floats) -> Floats:
    """Holm's adjusted p values: those at most alpha are found, at that family-wise error."""
    order = np.argsort(p, kind="stable")
    adjusted = np.empty_like(p)
    adjusted[order] = np.maximum.accumulate(np.arange(p.size, 0, -1) * p[order]).clip(max=1.0)
    return adjusted
