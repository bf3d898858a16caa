"""The ratio of a point's times and how well it is known, from its rounds and recorded noise.

Logarithms of times are compared, the mean over rounds of one set against that of the other; the
rounds of two sweeps are not paired, as they share no more than their number. The standard error of
the difference has two parts. What differs between rounds is seen in the rounds. What differs
between two processes is not, where all rounds ran in one: of the recorded noise of two sweeps
(`analysis.comparison.noise`) the part that the rounds do not show is added, b² = max(0, τ² − 2s²).
With one round on either side that noise is all there is, and the interval is its heavy-tailed t,
widened by the rows' own intervals.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from analysis.comparison import noise
from analysis.comparison.pairs import Pair, Row
from analysis.student import MOST_DF
from experiments.statistics import Z95


def estimates(
    pairs: Sequence[Pair], ranges: Sequence[noise.Range]
) -> list[tuple[float, float, float, float]]:
    """For each pair difference, standard error, degrees of freedom and floor; logarithms."""
    logs = [[np.log([r["time_us"] for r in v.timed]) for v in (p.base, p.head) if v] for p in pairs]
    middles = np.array([[side.mean() for side in sides] for sides in logs])
    scales, shapes, floors = noise.at(ranges, np.exp(middles.mean(axis=1)))
    found = []
    for pair, sides, (base, head), scale, shape, floor in zip(
        pairs, logs, middles, scales, shapes, floors, strict=True
    ):
        counts = [len(side) for side in sides]
        freedom = sum(counts) - 2
        squares = sum(float(((side - side.mean()) ** 2).sum()) for side in sides)
        variance = squares / freedom if freedom else 0.0
        if min(counts) == 1:
            within = sum(
                _within(v.timed[0]) for v in (pair.base, pair.head) if v and len(v.timed) == 1
            )
            error, df = max(scale**2, 2 * variance) + within, float(shape)
        else:
            seen = variance * sum(1 / n for n in counts)
            error = seen + max(0.0, float(scale) ** 2 - 2 * variance)
            df = min(freedom * (error / seen) ** 2, MOST_DF) if seen else MOST_DF
        found.append((head - base, float(np.sqrt(error)), df, float(floor)))
    return found


def _within(row: Row) -> float:
    """The variance of a row's median by its own interval, of the logarithm."""
    low, high = row["time_low_us"], row["time_high_us"]
    return float(np.log(high / low) / 2 / Z95) ** 2 if 0 < low < high else 0.0
