"""The ratio of a point's times and how well it is known, from its rounds and recorded noise.

Logarithms of times are compared, the mean over rounds of one set against that of the other; the
rounds of two sweeps are not paired, as they share no more than their number. The variance of the
difference has two parts. What differs between rounds, s², is seen in the rounds. What differs
between two processes is not, where all rounds ran in one. The noise of two sweeps of one round
each is recorded by time range (`analysis.comparison.noise`); as much of it as the rounds of a range
do not show, b² = max(0, τ² − 2·mean s²), is added with the few degrees of freedom that its tails
have. So rounds in fresh processes show all of it and nothing is added; eight rounds of one process
that agree too well are not believed. With one round on either side the recorded noise is all there
is, widened by the row's own interval.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from analysis.comparison import noise
from analysis.comparison.pairs import Pair, Row
from analysis.estimate import Floats
from experiments.data.statistics import Z95

_MOST_DF = 1000.0  # beyond, t is the normal within 0.3 % of a quantile, and on the wide side
_LEAST = 1e-6  # a standard error, where nothing varies at all


@dataclass(frozen=True)
class Estimates:
    """Logarithms, one value a pair.

    Attributes:
        difference: Of the times, HEAD less BASE.
        error: Its standard error.
        df: The degrees of freedom of that.
        floor: What 5 % of equal points differ by, or more.
    """

    difference: Floats
    error: Floats
    df: Floats
    floor: Floats


def estimates(pairs: Sequence[Pair], ranges: Sequence[noise.Range]) -> Estimates:
    """The differences of pairs with two times."""
    logs = [[np.log([r["time_us"] for r in v.timed]) for v in (p.base, p.head) if v] for p in pairs]
    middles = np.array([[side.mean() for side in sides] for sides in logs])
    counts = np.array([[len(side) for side in sides] for sides in logs])
    squares = np.array([sum(((s - s.mean()) ** 2).sum() for s in sides) for sides in logs])
    freedom = counts.sum(axis=1) - 2
    scale, shape, floor = noise.at(ranges, np.exp(middles.mean(axis=1)))
    variance = squares / np.maximum(freedom, 1)

    single = counts.min(axis=1) == 1
    shown = _pooled(squares, np.where(single, 0, freedom), scale)
    between = np.maximum(0, scale**2 - 2 * shown)
    between = np.where(single, np.maximum(scale**2, 2 * variance), between)
    between += np.array([sum(map(_within, pair)) if one else 0.0
                         for pair, one in zip(_lone(pairs), single, strict=True)])  # fmt: skip
    seen = np.where(single, 0.0, variance * (1 / counts).sum(axis=1))
    error = seen + between
    # Welch and Satterthwaite; rounds that are equal to the last digit leave nothing to divide by
    spread = seen**2 / np.maximum(freedom, 1) + between**2 / shape
    df = np.where(spread > 0, error**2 / np.where(spread > 0, spread, 1), _MOST_DF)
    error = np.sqrt(np.maximum(error, _LEAST**2))
    return Estimates(middles[:, 1] - middles[:, 0], error, np.minimum(df, _MOST_DF), floor)


def _pooled(squares: Floats, freedom: Floats, ranges: Floats) -> Floats:
    """The variance of one round, over all points of the same range that have several rounds.

    A range is told by its noise. Where no point has rounds it is zero.
    """
    found = np.zeros_like(squares)
    for one in np.unique(ranges):
        here = ranges == one
        several = here & (freedom > 0)
        found[here] = squares[several].sum() / max(freedom[several].sum(), 1)
    return found


def _lone(pairs: Sequence[Pair]) -> list[list[Row]]:
    """The rows that are their side's only round."""
    return [[v.timed[0] for v in (p.base, p.head) if v and len(v.timed) == 1] for p in pairs]


def _within(row: Row) -> float:
    """The variance of a row's median by its own interval, of the logarithm."""
    low, high = row["time_low_us"], row["time_high_us"]
    return float(np.log(high / low) / 2 / Z95) ** 2 if 0 < low < high else 0.0
