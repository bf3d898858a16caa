"""Numbers and places in words."""

from __future__ import annotations

from collections.abc import Sequence

from analysis.claims.band import Measure


def plain(value: float) -> str:
    """Four significant figures, thousands apart: 1.427, 0.02134, 226,051."""
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.4g}"


def measured(measure: Measure) -> str:
    """A number with its interval, where it has one."""
    if measure.low == measure.high:
        return plain(measure.value)
    return f"{plain(measure.value)} [{plain(measure.low)}, {plain(measure.high)}]"


def many(number: int, noun: str) -> str:
    """``1 point``, ``98 points``."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def listed(words: Sequence[str], last: str = "and") -> str:
    """``a``, ``a and b``, ``a, b and c``."""
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} {last} {words[-1]}"
