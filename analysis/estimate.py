"""Every statistic of times: intervals, ratios, geometric means, rounds, t and Holm's correction.

The samples of one visit to a point share the machine's state of that moment: clocks, temperature,
addresses. Hundreds of them say how well that visit's median is known, and nothing about the next
visit. So the unit is the round: rounds are resampled first and samples within them second (Kalibera
& Jones, ISMM'13: repeat at the level that varies). Of a single round every function gives the row's
own interval, and `Estimate.one_round` says that it describes no other round.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special  # scipy.stats calls the same functions and takes four times as long

from analysis.selection import Selection
from experiments.data import statistics

DRAWS = 1000
RESOLUTION_US = 0.032  # of CUDA events on an H200; what is taken where samples do not show it
Rounds = Sequence[Sequence[float]]  # the samples of each round, µs
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Estimate:
    """A number with its interval, in its unit, and the number of rounds that it was made of."""

    value: float
    low: float
    high: float
    rounds: int = 1

    @property
    def one_round(self) -> bool:
        """Whether it describes the samples of one round only, and no other round."""
        return self.rounds == 1

    def __truediv__(self, other: Estimate) -> Estimate:
        """The ratio of two positive numbers, with the widest interval that both allow."""
        ends = self.low / other.high, self.high / other.low
        return Estimate(self.value / other.value, *ends, min(self.rounds, other.rounds))


def geometric_mean(values: Iterable[float]) -> float:
    """The geometric mean of positive numbers, as ratios are averaged; NaN of none."""
    logs = [math.log(value) for value in values]
    return math.exp(math.fsum(logs) / len(logs)) if logs else math.nan


def log_reach(values: Iterable[float], level: float = 0.95) -> float:
    """Half the t interval of the mean logarithm of two or more positive numbers.

    Their geometric mean times exp(± this) is its interval.
    """
    logs = np.log(np.asarray(list(values), float))
    return critical(level, logs.size - 1) * float(np.std(logs, ddof=1)) / math.sqrt(logs.size)


def median_of(rounds: Rounds, level: float = 0.95, seed: int = 0) -> Estimate:
    """The median of the rounds' medians, by a hierarchical bootstrap.

    Raises:
        ValueError: there are no rounds, or one has no samples.
    """
    if _checked(rounds) == 1:
        own = statistics.median(rounds[0])
        return Estimate(own.value, own.low, own.high, 1)
    drawn = np.median(resampled(rounds, *_dice(len(rounds), seed)), axis=1)
    value = float(np.median([statistics.median(samples).value for samples in rounds]))
    return _percentiles(value, drawn, level, len(rounds))


def ratio_of(first: Rounds, second: Rounds, level: float = 0.95, seed: int = 0) -> Estimate:
    """The median over rounds of the ratio first / second of two medians of the same round.

    The variants of one round are neighbours in time, so what moves both leaves the ratio alone:
    a resampled round takes its two medians together. It is meant for two variants of one sweep;
    the rounds of two sweeps share no more than their number. What samples vary by within a round
    counts twice, in the rounds' medians and in their resampling, so it is rather too wide.

    Raises:
        ValueError: there are no rounds, not as many of one as of the other, or one is empty.
    """
    if _checked(first) != _checked(second):
        raise ValueError(f"{len(first)} rounds cannot be paired with {len(second)}")
    if len(first) == 1:
        return median_of(first) / median_of(second)
    pick, dice = _dice(len(first), seed)
    drawn = resampled(first, pick, dice) / resampled(second, pick, dice)
    a, b = (np.array([statistics.median(s).value for s in side]) for side in (first, second))
    value = float(np.median(a / b))
    return _percentiles(value, np.median(drawn, axis=1), level, len(first))


def prediction(rounds: Rounds, level: float = 0.95) -> Estimate:
    """Where a further round's median lies: mean ± t·s·√(1 + 1/R) of the rounds' log medians.

    It always holds every median seen and a step of the timer beyond: rounds that agree to the last
    digit do so because there is no further digit, and of a kernel that flips between two values (on
    an H200 those under 25 µs do, 0.5 µs apart) it holds both as soon as both were seen. A value
    that a round takes with probability p is absent from R rounds and then met with p(1 − p)^R, at
    most 4.4 % for eight rounds and 10.5 % for three: no wider floor is needed.

    Raises:
        ValueError: there are no rounds, or one has no samples.
    """
    count = _checked(rounds)
    if count == 1:
        return median_of(rounds)
    medians = [statistics.median(samples).value for samples in rounds]
    middle, spread = float(np.mean(np.log(medians))), float(np.std(np.log(medians), ddof=1))
    reach = critical(level, count - 1) * spread * float(np.sqrt(1 + 1 / count))
    step = timer_step(rounds)
    low = min(float(np.exp(middle - reach)), min(medians) - step)
    high = max(float(np.exp(middle + reach)), max(medians) + step)
    return Estimate(float(np.exp(middle)), max(low, 0.0), high, count)


def timer_step(rounds: Rounds) -> float:
    """The timer's resolution, µs: the least distance of two samples that differ, to 1 ns."""
    values = np.unique(np.round(np.concatenate(rounds), 3))
    return float(np.diff(values).min()) if values.size > 1 else RESOLUTION_US


def resampled(rounds: Rounds, pick: np.ndarray, dice: np.random.Generator) -> Floats:
    """Medians of as many resampled rounds, each resampled within; shape of ``pick``.

    A resample of n samples is not drawn: its median is the sorted sample at rank n·U, where U is
    the middle order statistic of n uniform numbers, which has a beta distribution.
    """
    medians = np.empty(pick.shape)
    for i, samples in enumerate(rounds):
        ordered, here = np.sort(np.asarray(samples, float)), pick == i
        n, draws = len(ordered), int(here.sum())
        lower = (n + 1) // 2
        u = dice.beta(lower, n + 1 - lower, draws)
        value = ordered[np.minimum((n * u).astype(int), n - 1)]
        if n % 2 == 0:  # the next order statistic, given this one
            v = u + (1 - u) * dice.beta(1, n - lower, draws)
            value = (value + ordered[np.minimum((n * v).astype(int), n - 1)]) / 2
        medians[here] = value
    return medians


def tail(t: ArrayLike, df: ArrayLike) -> Floats:
    """P(T > t) of Student's t with ``df`` degrees of freedom, broadcast against each other."""
    return np.asarray(special.stdtr(df, -np.asarray(t, float)))


def quantile(level: ArrayLike, df: ArrayLike) -> Floats:
    """The t above which lies a share ``level`` (at most one half) of the distribution."""
    return np.asarray(-special.stdtrit(df, level))


def critical(level: float, df: int) -> float:
    """The same of one two-sided ``level``: mean ± this many standard errors."""
    return float(quantile((1 - level) / 2, df))


def holm(p: Floats) -> Floats:
    """Holm's adjusted p values: those at most alpha are found, at that family-wise error."""
    order = np.argsort(p, kind="stable")
    adjusted = np.empty_like(p)
    adjusted[order] = np.maximum.accumulate(np.arange(p.size, 0, -1) * p[order]).clip(max=1.0)
    return adjusted


def rate_interval(found: int, of: int) -> tuple[float, float]:
    """Wilson's 95 % interval of a rate."""
    z, rate = statistics.Z95, found / of
    middle = (rate + z * z / (2 * of)) / (1 + z * z / of)
    reach = z * math.sqrt(rate * (1 - rate) / of + z * z / (4 * of * of)) / (1 + z * z / of)
    return max(min(middle - reach, rate), 0.0), min(max(middle + reach, rate), 1.0)


def speedups(view: Selection, base: str) -> Selection:
    """The view's points with ``speedup``, ``speedup_low`` and ``speedup_high`` over ``base``.

    A ratio is the base's median over the variant's. Its interval goes from the base's lower end
    over the variant's upper end to the opposite: it holds wherever both medians' intervals do.
    ``traffic_ratio`` is the same of the models' bytes. The base and the copies are left out.
    """
    own = view.points[(view.points["operation"] != "copy") & (view.points["kernel"] != base)]
    good = view.points[(view.points["kernel"] == base) & (view.points["status"] == "ok")]
    # a kernel with several settings counts with the fastest of each size
    over = view.query.over
    fastest = good.sort_values("time_us", kind="stable").drop_duplicates(over).set_index(over)

    def of_base(column: str) -> np.ndarray:
        return np.asarray(own[over].map(fastest[column].astype(float)), dtype=float)

    return replace(
        view,
        points=own.assign(
            speedup=(of_base("time_us") / own["time_us"]).where(own["status"] == "ok"),
            speedup_low=of_base("time_low_us") / own["time_high_us"],
            speedup_high=of_base("time_high_us") / own["time_low_us"],
            traffic_ratio=of_base("model_bytes") / own["model_bytes"],
        ),
    )


def comparable(base: str) -> Callable[[Selection], bool]:
    """Whether a view holds ``base`` and another variant, both timed at one size."""
    return lambda view: bool(speedups(view, base).points["speedup"].notna().any())


def _checked(rounds: Rounds) -> int:
    if not rounds or not all(len(samples) for samples in rounds):
        raise ValueError("statistics of rounds need a round, and samples in each")
    return len(rounds)


def _dice(rounds: int, seed: int) -> tuple[np.ndarray, np.random.Generator]:
    dice = np.random.default_rng(seed)
    return dice.integers(0, rounds, (DRAWS, rounds)), dice


def _percentiles(value: float, drawn: Floats, level: float, rounds: int) -> Estimate:
    """The percentile interval, expanded for how few rounds there are.

    Plain percentiles of R values are too narrow by √((R−1)/R) and by the normal in t's place
    (Hesterberg, The American Statistician 69, 2015, section 3.4).
    """
    reach = critical(level, rounds - 1) * np.sqrt(rounds / (rounds - 1))
    share = float(special.ndtr(-reach))
    low, high = np.quantile(drawn, [share, 1 - share])
    return Estimate(value, min(float(low), value), max(float(high), value), rounds)
