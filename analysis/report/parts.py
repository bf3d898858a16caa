"""The parts of the page in their order, and how verdicts look."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True)
class Part:
    """A section: its anchor and title; its template bears the anchor's name."""

    id: str
    title: str

    @property
    def template(self) -> str:
        """The template's file."""
        return f"{self.id}.html"


# The stepper's own element is #stepper; its section may not take that name.
PARTS = (
    Part("summary", "Verdicts"),
    Part("figures", "Figures"),
    Part("tables", "Tables"),
    Part("claims", "Claims and their evidence"),
    Part("audit", "Audit of printed numbers"),
    Part("traffic", "Traffic, three ways"),
    Part("roofline", "Roofline"),
    Part("steps", "Stepper"),
    Part("environment", "Environment and reproduction"),
)

# A sign beside the words: colour alone tells some readers nothing.
_LOOKS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "supported": ("good", "✓"),
        "refuted": ("bad", "✗"),
        "inconclusive": ("warn", "?"),
        "not testable here": ("quiet", "–"),
        "physically impossible": ("bad", "✗"),
        "self-contradictory": ("warn", "≠"),
        "wrong": ("bad", "✗"),
        "consistent": ("good", "✓"),
    }
)
ORDER = tuple(_LOOKS)


def tone(verdict: str) -> str:
    """The class of a verdict's chip."""
    return _LOOKS.get(verdict, ("quiet", ""))[0]


def sign(verdict: str) -> str:
    """The sign before a verdict's words."""
    return _LOOKS.get(verdict, ("", "·"))[1]


def tally(verdicts: list[str]) -> list[tuple[str, int]]:
    """How many of each verdict, in the order of the legend; any others after them."""
    seen = [v for v in ORDER if v in verdicts]
    seen += sorted(set(verdicts) - set(ORDER))
    return [(verdict, verdicts.count(verdict)) for verdict in seen]
