"""Printed numbers as the intervals they were rounded from."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal


@dataclass(frozen=True)
class Interval:
    """All values from ``low`` to ``high``, both positive."""

    low: float
    high: float

    def __truediv__(self, other: Interval) -> Interval:
        return Interval(self.low / other.high, self.high / other.low)

    def __rmul__(self, factor: float) -> Interval:
        return Interval(factor * self.low, factor * self.high)

    def meets(self, other: Interval) -> bool:
        """Whether some value is in both."""
        return self.low <= other.high and other.low <= self.high

    def widened(self, share: float) -> Interval:
        """Both ends moved outwards by ``share`` of themselves."""
        return Interval(self.low * (1 - share), self.high * (1 + share))


def rounded(value: Decimal | float) -> Interval:
    """What rounds to ``value`` as printed: half a unit of its last digit to both sides."""
    number = value if isinstance(value, Decimal) else Decimal(f"{value:.12g}")
    exponent = number.as_tuple().exponent
    assert isinstance(exponent, int)
    half = 0.5 * 10.0**exponent
    return Interval(float(number) - half, float(number) + half)
