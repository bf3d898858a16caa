"""An interval against a band: the one place where a verdict is decided."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

Verdict = Literal["supported", "refuted", "inconclusive", "not testable here"]
SUPPORTED: Verdict = "supported"
REFUTED: Verdict = "refuted"
INCONCLUSIVE: Verdict = "inconclusive"
UNTESTABLE: Verdict = "not testable here"
VERDICTS = (SUPPORTED, REFUTED, INCONCLUSIVE, UNTESTABLE)
# Of several verdicts the first of these that occurs is the verdict of all together.
_DECIDING = (REFUTED, INCONCLUSIVE, UNTESTABLE, SUPPORTED)


@dataclass(frozen=True)
class Measure:
    """A number and its interval, with the labels of the rows that it was made from.

    Raises:
        ValueError: the bounds are not numbers, or in the wrong order.
    """

    value: float
    low: float
    high: float
    rows: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if not self.low <= self.high:
            raise ValueError(f"no interval: [{self.low}, {self.high}]")

    def __truediv__(self, other: Measure) -> Measure:
        """The ratio with the widest interval that both allow; both positive."""
        return Measure(
            self.value / other.value,
            self.low / other.high,
            self.high / other.low,
            (*self.rows, *other.rows),
        )


def exactly(value: float) -> Measure:
    """A number that is known: counted, or printed."""
    return Measure(value, value, value)


@dataclass(frozen=True)
class Band:
    """What a claim allows: all numbers from ``low`` to ``high``, ``hole`` excepted.

    Attributes:
        low: The least.
        high: The most.
        open: Whether the ends themselves are outside.
        hole: One number that is outside.
    """

    low: float = -math.inf
    high: float = math.inf
    open: bool = False
    hole: float | None = None

    def holds(self, value: float) -> bool:
        """Whether one number lies inside."""
        if value == self.hole:
            return False
        inside = self.low < value < self.high if self.open else self.low <= value <= self.high
        return inside

    def verdict(self, low: float, high: float) -> Verdict:
        """Supported where all of [low, high] lies inside, refuted where all of it lies outside."""
        if self._covers(low, high):
            return SUPPORTED
        if self._misses(low, high):
            return REFUTED
        return INCONCLUSIVE

    def excess(self, value: float) -> float:
        """How far outside a number lies; negative inside, by its distance to the nearer end."""
        return max(self.low - value, value - self.high)

    def _covers(self, low: float, high: float) -> bool:
        pierced = self.hole is not None and low <= self.hole <= high
        return self.holds(low) and self.holds(high) and not pierced

    def _misses(self, low: float, high: float) -> bool:
        if low == high == self.hole:
            return True
        if self.open:
            return high <= self.low or low >= self.high
        return high < self.low or low > self.high


def together(verdicts: Iterable[Verdict]) -> Verdict:
    """The verdict of a claim whose checks have these."""
    found = set(verdicts)
    return next((verdict for verdict in _DECIDING if verdict in found), UNTESTABLE)
