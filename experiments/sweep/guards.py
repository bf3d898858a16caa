"""What makes a timed row suspect: each guard's threshold, its reason, and its one sentence.

A suspect row is kept with all its samples, and its point is measured once more: the last attempt
counts. Guards judge what a row records, so that recorded rows can be judged again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# A step of an H200's SM clock is 15 MHz, 0.8 % of 1980; one step comes and goes by itself. Beyond
# two steps a kernel that the SMs limit slows by more than the 1 % that ratios are to resolve.
CLOCK_DRIFT = 0.02
# A point lasts a tenth of a second to a few. NVML reports whole degrees; five within one point are
# a card that comes out of idle or loses its cooling, not the few of a card at work.
RAMP_C = 5.0


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
        found.append(f"disturbed: another process had a core in {row['late']} windows")
    return found


def _clock(before: float | None, after: float | None, highest: float | None) -> list[str]:
    if after is None:
        return []
    if before is not None and abs(after - before) > CLOCK_DRIFT * max(before, after):
        return [f"clock: from {before:g} to {after:g} MHz within the point"]
    if highest is not None and after < (1 - CLOCK_DRIFT) * highest:
        return [f"clock: {after:g} MHz, where this card ran at {highest:g} in this sweep"]
    return []
