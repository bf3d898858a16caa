"""Verdicts, in one place: their words, and when a number's interval decides one."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, get_args

from analysis.estimate import Estimate

Verdict = Literal["supported", "refuted", "inconclusive", "not testable here"]
SUPPORTED: Verdict = "supported"
REFUTED: Verdict = "refuted"
INCONCLUSIVE: Verdict = "inconclusive"
UNTESTABLE: Verdict = "not testable here"
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)
# Of several verdicts the first of these that occurs is the verdict of all together; what it means
# for a part of a claim.
MEANING: Mapping[Verdict, str] = MappingProxyType(
    {
        REFUTED: "not as claimed",
        INCONCLUSIVE: "undecided",
        UNTESTABLE: "not testable",
        SUPPORTED: "as claimed",
    }
)
COLORS: Mapping[str, str] = MappingProxyType(
    {SUPPORTED: "green", REFUTED: "red", INCONCLUSIVE: "yellow"}
)

AuditVerdict = Literal["physically impossible", "self-contradictory", "wrong", "consistent"]
AUDIT_VERDICTS: tuple[AuditVerdict, ...] = get_args(AuditVerdict)  # the gravest first


def together(verdicts: Iterable[Verdict]) -> Verdict:
    """The verdict of a claim whose checks have these."""
    found = set(verdicts)
    return next((verdict for verdict in MEANING if verdict in found), UNTESTABLE)


@dataclass(frozen=True)
class Band:
    """What a claim allows: all numbers from ``low`` to ``high``, the ends of an ``open`` band and
    ``hole`` excepted.
    """

    low: float = -math.inf
    high: float = math.inf
    open: bool = False
    hole: float | None = None

    def holds(self, value: float) -> bool:
        """Whether one number lies inside."""
        if value == self.hole:
            return False
        return self.low < value < self.high if self.open else self.low <= value <= self.high

    def verdict(self, found: Estimate) -> Verdict:
        """Supported where all of the interval lies inside, refuted where all of it lies outside.

        Raises:
            ValueError: its ends are not numbers, or in the wrong order.
        """
        low, high = found.low, found.high
        if not low <= high:
            raise ValueError(f"no interval: [{low}, {high}]")
        pierced = self.hole is not None and low <= self.hole <= high
        if self.holds(low) and self.holds(high) and not pierced:
            return SUPPORTED
        beyond = high < self.low or low > self.high or low == high == self.hole
        touching = self.open and (high <= self.low or low >= self.high)
        return REFUTED if beyond or touching else INCONCLUSIVE

    def excess(self, value: float) -> float:
        """How far outside a number lies; negative inside, by its distance to the nearer end."""
        return max(self.low - value, value - self.high)
