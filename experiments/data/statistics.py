"""What is computed of a point's samples: the published median, and the shape of their stream."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, combinations

Z95 = 1.959964  # two-sided 95 % of a standard normal
BLOCKS = 50  # at most: pairs of block medians are cheap to compare
LEAST_SHARE = 0.1  # of the samples in each of two modes


@dataclass(frozen=True)
class Median:
    """A median and the bounds of its 95 % interval, in the samples' unit."""

    value: float
    low: float
    high: float

    @property
    def precision(self) -> float:
        """Half the interval's width as a share of the median."""
        return (self.high - self.low) / (2 * self.value) if self.value else math.inf


def median(samples: Sequence[float]) -> Median:
    """The median with an interval that assumes no distribution.

    The bounds are order statistics: the number of samples below the true median is binomial, so
    ranks n/2 ± z·√n/2 enclose it in 95 % of cases (Hoefler & Belli, SC'15, rule 5). Below six
    samples no pair of ranks does, and the bounds are the extremes.

    Raises:
        ValueError: there are no samples.
    """
    if not samples:
        raise ValueError("a median needs at least one sample")
    ordered = sorted(samples)
    n = len(ordered)
    middle = (ordered[(n - 1) // 2] + ordered[n // 2]) / 2
    reach = Z95 * math.sqrt(n) / 2
    low = max(math.floor(n / 2 - reach), 1)
    high = min(math.ceil(n / 2 + reach + 1), n)
    return Median(middle, ordered[low - 1], ordered[high - 1])


def stop_reason(
    samples: Sequence[float],
    *,
    min_samples: int,
    max_samples: int,
    precision: float,
    out_of_time: bool,
) -> str | None:
    """Why sampling ends now, or None to go on.

    ``precision`` is the half-width of the interval to reach, as a share of the median.
    """
    if len(samples) >= min_samples and median(samples).precision <= precision:
        return "converged"
    if len(samples) >= max_samples:
        return "max_samples"
    if out_of_time and samples:
        return "time_limit"
    return None


def unconverged(reason: str | None) -> str:
    """What stands beside a time whose sampling ended for another ``reason`` than convergence."""
    ended = reason if isinstance(reason, str) else "converged"  # a table's NaN is no reason
    return "" if ended == "converged" else f"not converged: {ended.replace('_', ' ')}"


@dataclass(frozen=True)
class Trend:
    """A Mann-Kendall score and the Theil-Sen change from the first sample to the last, in µs."""

    z: float
    change_us: float


@dataclass(frozen=True)
class Modes:
    """Two separated groups of samples: their medians in µs and the upper one's share."""

    low_us: float
    high_us: float
    upper_share: float


def trend(samples_us: Sequence[float]) -> Trend:
    """The Mann-Kendall test and the Theil-Sen slope, on medians of equal blocks in time.

    Blocks of ten or more take out what repeats within a timer's batch of ten, and single spikes.
    """
    size = max(math.ceil(len(samples_us) / BLOCKS), 10)
    count = len(samples_us) // size
    blocks = [median(samples_us[i * size : (i + 1) * size]).value for i in range(count)]
    if count < 4:  # no order of three is rare enough to mean anything
        return Trend(0.0, 0.0)
    slopes = [(blocks[j] - blocks[i]) / (j - i) for i, j in combinations(range(count), 2)]
    score = sum((slope > 0) - (slope < 0) for slope in slopes)
    variance = _spread(count) - sum(_spread(n) for n in Counter(blocks).values())
    if variance <= 0:
        return Trend(0.0, 0.0)
    z = (score - math.copysign(1, score)) / math.sqrt(variance) if score else 0.0
    return Trend(z, median(slopes).value * (count - 1))


def _spread(n: int) -> float:
    return n * (n - 1) * (2 * n + 5) / 18


def modes(samples_us: Sequence[float]) -> Modes | None:
    """Two modes, where the samples fall into two groups with more room between than within.

    The split is the one with the most variance between groups (Otsu), each group holding a tenth
    of the samples at least. The groups are apart when from the lower one's 90th percentile to the
    upper one's 10th it is farther than either spans from its 10th to its 90th: a normal, a uniform
    or an exponential distribution never is, two normal ones are from five standard deviations on.
    """
    ordered = sorted(samples_us)
    n = len(ordered)
    below = list(accumulate(ordered, initial=0.0))
    fewest = math.ceil(LEAST_SHARE * n)

    def between(i: int) -> float:
        apart = below[i] / i - (below[n] - below[i]) / (n - i)
        return i * (n - i) * apart * apart

    split = max(range(fewest, min(n - fewest + 1, n)), key=between, default=0)
    if split == 0:
        return None
    low, high = ordered[:split], ordered[split:]
    low10, low90, high10, high90 = (_at(g, q) for g in (low, high) for q in (0.1, 0.9))
    if high10 - low90 <= max(low90 - low10, high90 - high10):
        return None
    return Modes(median(low).value, median(high).value, len(high) / n)


def _at(ordered: Sequence[float], share: float) -> float:
    return ordered[round(share * (len(ordered) - 1))]
