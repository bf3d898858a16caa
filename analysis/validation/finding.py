"""One thing that was found in a folder of rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Aspect = Literal["schema", "completeness", "privacy", "plausibility"]
ASPECTS: tuple[Aspect, ...] = ("schema", "completeness", "privacy", "plausibility")


@dataclass(frozen=True)
class Finding:
    """A problem, or a warning.

    Attributes:
        aspect: Which of the four questions it answers.
        kind: What findings of its like share, such as ``missing points``.
        where: A file, with its line where it has one, or the point.
        what: A short sentence.
        grave: Whether the folder cannot be taken with it; else it is a warning.
    """

    aspect: Aspect
    kind: str
    where: str
    what: str
    grave: bool = True


def some(things: list[str], most: int = 4) -> str:
    """The first few of a list, and how many more there are."""
    rest = len(things) - most
    return ", ".join(things[:most]) + (f" and {rest:,} more" if rest > 0 else "")
