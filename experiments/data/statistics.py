"""The published median of a point's samples, and when sampling ends."""

import math
from collections.abc import Sequence
from typing import NamedTuple

from experiments.data.jobs import TimingConfig

Z95 = 1.959964  # two-sided 95 % of a standard normal


class Median(NamedTuple):
    """A median and the bounds of its 95 % interval, in the samples' unit."""

    value: float
    low: float
    high: float


def median(samples: Sequence[float]) -> Median:
    """The median with an interval that assumes no distribution.

    The bounds are order statistics: the number of samples below the true median is binomial, so
    ranks n/2 ± z·√n/2 enclose it in 95 % of cases (Hoefler & Belli, SC'15, rule 5). Below six
    samples no pair of ranks does, and the bounds are the extremes.
    """
    ordered = sorted(samples)
    n = len(ordered)
    middle = (ordered[(n - 1) // 2] + ordered[n // 2]) / 2
    reach = Z95 * math.sqrt(n) / 2
    low = max(math.floor(n / 2 - reach), 1)
    high = min(math.ceil(n / 2 + reach + 1), n)
    return Median(middle, ordered[low - 1], ordered[high - 1])


def stop_reason(samples: Sequence[float], protocol: TimingConfig, out_of_time: bool) -> str | None:
    """The rule that ends sampling now, by name; None to take more samples."""
    if len(samples) >= protocol.min_samples:
        value, low, high = median(samples)
        if (high - low) / 2 < protocol.precision * value:
            return "converged"
    if len(samples) >= protocol.max_samples:
        return "max_samples"
    if out_of_time and samples:
        return "time_limit"
    return None


def unconverged(reason: str | None) -> str:
    """A note such as "not converged: time limit"; "" if sampling converged or has no reason."""
    ended = reason if isinstance(reason, str) else "converged"  # pandas has NaN instead of None
    return "" if ended == "converged" else f"not converged: {ended.replace('_', ' ')}"
