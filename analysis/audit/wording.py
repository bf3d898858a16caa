"""Numbers, widths and bandwidths as findings write them."""

from __future__ import annotations

from collections.abc import Sequence


def number(value: float) -> str:
    """Three digits; from 100 on a whole number with its thousands apart."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def numbers(values: Sequence[float]) -> str:
    """Several, in order."""
    return " · ".join(number(value) for value in values)


def decimals(values: Sequence[float], digits: int) -> str:
    """Several with as many digits as their table prints, without the zero before the point."""
    return " ".join(f"{value:.{digits}f}".removeprefix("0") for value in values)


def gbps(value: float) -> str:
    """A bandwidth with its unit."""
    whole = value >= 1000 or value == int(value)
    return f"{value:,.0f} GB/s" if whole else f"{value:.2f} GB/s"


def names(several: Sequence[str]) -> str:
    """Names in a sentence, empty for none."""
    return " and ".join(part for part in (", ".join(several[:-1]), *several[-1:]) if part)


def widths(some: Sequence[int], every: Sequence[int]) -> str:
    """Widths out of a series: all from one on, or each."""
    if len(some) > 1 and list(some) == list(every)[-len(some) :]:
        return f"N ≥ {some[0]:,}" if len(some) < len(every) else "every N"
    return "N = " + ", ".join(f"{n:,}" for n in some)
