"""What makes a timed row suspect: each guard's threshold, its reason, and its one sentence.

A suspect row is kept with all its samples, and its point is measured once more. Guards judge what
a row records, so that recorded rows can be judged again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from experiments.data.statistics import modes, trend

# A step of an H200's SM clock is 15 MHz, 0.8 % of 1980; one step comes and goes by itself. Beyond
# two steps a kernel that the SMs limit slows by more than the 1 % that ratios are to resolve.
CLOCK_DRIFT = 0.02
# A point lasts a tenth of a second to a few. NVML reports whole degrees; five within one point are
# a card that comes out of idle or loses its cooling, not the few of a card at work.
RAMP_C = 5.0
# Below this many samples the shape of a stream is a guess.
FEWEST_SAMPLES = 100
# One in a thousand steady streams passes by chance, but the effect must matter too.
TREND_Z = 3.29


# From which size on a trend or a gap matters: both as a share of the median and in µs. The clock of
# events ticks in 32 ns on an H200. Half a microsecond of gap below 25 µs is how that card times
# every kernel, copies too: it belongs to the noise floor, and no second visit ends it.
TREND = (0.005, 0.1)
MODES = (0.01, 0.6)
# The host's clock has a scheduler and the cores' own clocks under it, at every point.
HOST_TREND = (0.25, 1.0)
HOST_MODES = (0.5, 1.0)


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
    if row.get("timer") == "host" and (row.get("late") or 0) > len(row["samples_us"]) / 2:
        found.append(f"disturbed: another process had a core in {row['late']} more windows")
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


def _matters(change_us: float, time_us: float, limit: tuple[float, float]) -> bool:
    share, least_us = limit
    return change_us > max(share * time_us, least_us)
