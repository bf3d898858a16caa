"""Numbers with the digits that they deserve."""

from __future__ import annotations

import math

LEAST = 3  # significant figures, where no interval says more


def number_text(value: float | None, digits: int | None = None) -> str:
    """With so many decimals, or three significant figures: 1,234 or 56.7."""
    if value is None or not math.isfinite(value):
        return "–"
    return f"{value:,.{decimals(value) if digits is None else digits}f}"


def interval_text(low: float | None, high: float | None, digits: int) -> str:
    """Both ends: 56.68–56.75."""
    if low is None or high is None:
        return "–"
    return f"{low:,.{digits}f}–{high:,.{digits}f}"


def decimals(value: float, low: float | None = None, high: float | None = None) -> int:
    """Decimals that show three figures of the value and one of the interval's width."""
    told = LEAST - 1 - _magnitude(value)
    if low is not None and high is not None and 0 < high - low < math.inf:
        told = max(told, min(-_magnitude(high - low), told + 2))
    return min(max(told, 0), 9)


def _magnitude(value: float) -> int:
    return math.floor(math.log10(abs(value))) if value else 0
