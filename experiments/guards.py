"""What makes a timed row suspect: each guard's threshold, its reason, and its one sentence.

A suspect row is kept with all its samples, and its point is measured once more. Guards judge what
a row records, so that recorded rows can be judged again.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from experiments.statistics import median

# A step of an H200's SM clock is 15 MHz, 0.8 % of 1980; one step comes and goes by itself. Beyond
# two steps a kernel that the SMs limit slows by more than the 1 % that ratios are to resolve.
CLOCK_DRIFT = 0.02
# A point lasts a tenth of a second to a few. NVML tells whole degrees; five within one point are a
# card that comes out of idle or loses its cooling, not the few of a card at work.
RAMP_C = 5.0
# Below this many samples the shape of a stream is a guess.
FEWEST_SAMPLES = 100
BLOCKS = 50  # at most: pairs of block medians are cheap to compare
# One in a thousand steady streams passes by chance, but the effect must matter too.
TREND_Z = 3.29
LEAST_SHARE = 0.1  # of the samples in each of two modes


@dataclass(frozen=True)
class Effect:
    """From which size on a trend or a gap matters: both as a share of the median and in µs."""

    share: float
    least_us: float


# The clock of events ticks in 32 ns on an H200. Half a microsecond of gap below 25 µs is how that
# card times every kernel, copies too: it belongs to the noise floor, and no second visit ends it.
TREND = Effect(share=0.005, least_us=0.1)
MODES = Effect(share=0.01, least_us=0.6)
# The host's clock has a scheduler and the cores' own clocks under it, at every point.
HOST_TREND = Effect(share=0.25, least_us=1.0)
HOST_MODES = Effect(share=0.5, least_us=1.0)


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


def suspicions(row: Mapping[str, Any], highest_mhz: float | None) -> list[str]:
    """Every reason to distrust a timed row, one sentence each; its first word is the kind.

    Args:
        row: The outcome's fields as a row has them.
        highest_mhz: The highest SM clock this sweep saw on the card before, if any.
    """
    if row.get("time_us") is None:
        return []
    found = [f"throttled: {reason}" for reason in row.get("throttled") or []]
    found += _clock(row.get("sm_clock_before_mhz"), row.get("sm_clock_mhz"), highest_mhz)
    others = row.get("other_processes")
    if others:
        found.append(f"shared: {others} other compute process{'es' * (others > 1)} on the card")
    before, after = row.get("temperature_before_c"), row.get("temperature_c")
    if before is not None and after is not None and after - before > RAMP_C:
        found.append(f"heating: from {before:g} to {after:g} °C within the point")
    return found + _stream(row["samples_us"], row["time_us"], row["timer"] == "host")


def _clock(before: float | None, after: float | None, highest: float | None) -> list[str]:
    if after is None:
        return []
    if before is not None and abs(after - before) > CLOCK_DRIFT * max(before, after):
        return [f"clock: from {before:g} to {after:g} MHz within the point"]
    if highest is not None and after < (1 - CLOCK_DRIFT) * highest:
        return [f"clock: {after:g} MHz, where this card ran at {highest:g} in this sweep"]
    return []


def _stream(samples_us: Sequence[float], time_us: float, host: bool) -> list[str]:
    if len(samples_us) < FEWEST_SAMPLES:
        return []
    found = []
    drift = trend(samples_us)
    limit = HOST_TREND if host else TREND
    if abs(drift.z) > TREND_Z and _matters(abs(drift.change_us), time_us, limit):
        found.append(f"trend: the samples move by {drift.change_us:+.3g} µs from first to last")
    split = modes(samples_us)
    limit = HOST_MODES if host else MODES
    if split and _matters(split.high_us - split.low_us, time_us, limit):
        found.append(
            f"modes: {split.upper_share:.0%} of the samples lie around {split.high_us:.4g} µs, "
            f"the rest around {split.low_us:.4g}"
        )
    return found


def _matters(change_us: float, time_us: float, limit: Effect) -> bool:
    return change_us > max(limit.share * time_us, limit.least_us)


def trend(samples_us: Sequence[float]) -> Trend:
    """The Mann-Kendall test and the Theil-Sen slope, on medians of equal blocks in time.

    Blocks of ten or more take out what repeats within a timer's batch of ten, and single spikes.
    """
    size = max(math.ceil(len(samples_us) / BLOCKS), 10)
    count = len(samples_us) // size
    blocks = [median(samples_us[i * size : (i + 1) * size]).value for i in range(count)]
    if count < 4:  # no order of three is rare enough to mean anything
        return Trend(0.0, 0.0)
    slopes = []
    score = 0
    for i in range(count):
        for j in range(i + 1, count):
            change = blocks[j] - blocks[i]
            score += (change > 0) - (change < 0)
            slopes.append(change / (j - i))
    ties = {value: blocks.count(value) for value in set(blocks)}
    variance = _spread(count) - sum(_spread(n) for n in ties.values())
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
    n, total = len(ordered), math.fsum(ordered)
    fewest = math.ceil(LEAST_SHARE * n)
    best, split, below = -1.0, 0, 0.0
    for i in range(1, n - fewest + 1):
        below += ordered[i - 1]
        if i < fewest or i == n:
            continue
        apart = below / i - (total - below) / (n - i)
        between = i * (n - i) * apart * apart
        if between > best:
            best, split = between, i
    if split == 0:
        return None
    low, high = ordered[:split], ordered[split:]
    low10, low90, high10, high90 = (_at(g, q) for g in (low, high) for q in (0.1, 0.9))
    if high10 - low90 <= max(low90 - low10, high90 - high10):
        return None
    return Modes(median(low).value, median(high).value, len(high) / n)


def _at(ordered: Sequence[float], share: float) -> float:
    return ordered[round(share * (len(ordered) - 1))]
