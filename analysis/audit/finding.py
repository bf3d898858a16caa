"""A finding of the audit, and the verdicts it may carry."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Verdict = Literal["physically impossible", "self-contradictory", "wrong", "consistent"]


@dataclass(frozen=True)
class Finding:
    """One printed statement held against arithmetic, a model, a fact or another statement.

    Attributes:
        source: The source's letter.
        subject: What was checked, by PAPERS' ids: ``"A-fig2 fused, N ≥ 4096"``.
        verdict: ``physically impossible`` above every card's peak; ``self-contradictory`` where
            two statements cannot both hold, of one source, of a source and its sequel, or of two
            accounts of the same code; ``wrong`` against arithmetic, this project's models or a
            cited fact; else ``consistent``.
        printed: What the source has.
        computed: What it should be, or what follows from what is printed.
        why: One sentence with the numbers.
    """

    source: str
    subject: str
    verdict: Verdict
    printed: str
    computed: str
    why: str
