"""Statistics whose unit is the round: what a further visit to a point would have measured.

The samples of one visit share whatever the machine did just then: clocks, temperature, addresses.
Hundreds of them say how well that visit's median is known, and nothing of the next visit. So rounds
are resampled first and samples within them second (Kalibera & Jones, ISMM'13: repeat at the level
that varies). Of a single round every function gives the row's own interval, and ``one_round`` says
that it tells of no other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from analysis.student import Floats, critical
from experiments.data import statistics

DRAWS = 1000
RESOLUTION_US = 0.032  # of CUDA events on an H200; what is taken where samples do not show it
Rounds = Sequence[Sequence[float]]  # the samples of each round, µs


@dataclass(frozen=True)
class Interval:
    """An estimate with its interval, in the unit of what it was made of.

    Attributes:
        value: The estimate.
        low: The interval's lower end.
        high: Its upper end.
        rounds: How many rounds it was made of.
    """

    value: float
    low: float
    high: float
    rounds: int

    @property
    def one_round(self) -> bool:
        """Whether it tells of the samples of one round only, and of no other round."""
        return self.rounds == 1


def median_of(rounds: Rounds, level: float = 0.95, seed: int = 0) -> Interval:
    """The median of the rounds' medians, by a hierarchical bootstrap.

    Raises:
        ValueError: there are no rounds, or one has no samples.
    """
    if _checked(rounds) == 1:
        own = statistics.median(rounds[0])
        return Interval(own.value, own.low, own.high, 1)
    drawn = np.median(resampled(rounds, *_dice(len(rounds), seed)), axis=1)
    value = float(np.median([statistics.median(samples).value for samples in rounds]))
    return _percentiles(value, drawn, level, len(rounds))


def ratio_of(first: Rounds, second: Rounds, level: float = 0.95, seed: int = 0) -> Interval:
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
        up, down = statistics.median(first[0]), statistics.median(second[0])
        return Interval(up.value / down.value, up.low / down.high, up.high / down.low, 1)
    pick, dice = _dice(len(first), seed)
    drawn = resampled(first, pick, dice) / resampled(second, pick, dice)
    a, b = (np.array([statistics.median(s).value for s in side]) for side in (first, second))
    value = float(np.median(a / b))
    return _percentiles(value, np.median(drawn, axis=1), level, len(first))


def prediction(rounds: Rounds, level: float = 0.95) -> Interval:
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
    return Interval(float(np.exp(middle)), max(low, 0.0), high, count)


def timer_step(rounds: Rounds) -> float:
    """The timer's resolution, µs: the least distance of two samples that differ, to 1 ns."""
    values = np.unique(np.round(np.concatenate([np.asarray(s, float) for s in rounds]), 3))
    return float(np.diff(values).min()) if values.size > 1 else RESOLUTION_US


def _checked(rounds: Rounds) -> int:
    if not rounds or not all(len(samples) for samples in rounds):
        raise ValueError("statistics of rounds need a round, and samples in each")
    return len(rounds)


def _dice(rounds: int, seed: int) -> tuple[np.ndarray, np.random.Generator]:
    dice = np.random.default_rng(seed)
    return dice.integers(0, rounds, (DRAWS, rounds)), dice


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


def _percentiles(value: float, drawn: Floats, level: float, rounds: int) -> Interval:
    """The percentile interval, expanded for how few rounds there are.

    Plain percentiles of R values are too narrow by √((R−1)/R) and by the normal in t's place
    (Hesterberg, The American Statistician 69, 2015, section 3.4).
    """
    reach = critical(level, rounds - 1) * np.sqrt(rounds / (rounds - 1))
    share = float(ndtr(-reach))
    low, high = np.quantile(drawn, [share, 1 - share])
    return Interval(value, min(float(low), value), max(float(high), value), rounds)
