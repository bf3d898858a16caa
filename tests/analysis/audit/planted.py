"""The published statements with one of them changed."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from analysis.audit import RULES, check, gather
from analysis.audit.finding import Finding
from analysis.audit.known import Known
from analysis.published import Source, sources
from experiments.data.cards import GPU_FILES


def source_with(letter: str, **changes: Any) -> dict[str, Source]:
    """The five sources, one with other fields."""
    told = dict(sources())
    told[letter] = told[letter].model_copy(update=changes)
    return told


def stating(letter: str, **changes: Any) -> dict[str, Source]:
    """The five sources, one with other statements of some kinds."""
    statements = sources()[letter].statements.model_copy(update=changes)
    return source_with(letter, statements=statements)


def finding(
    subject: str, told: dict[str, Source] | None = None, cards: Path = GPU_FILES
) -> Finding:
    """The one finding about a subject."""
    known = replace(_gathered(cards), sources=told or sources())
    found = [one for rule in RULES for one in rule(known) if one.subject == subject]
    assert len(found) == 1, [one.subject for one in check(known)]
    return found[0]


def verdict(subject: str, told: dict[str, Source] | None = None, cards: Path = GPU_FILES) -> str:
    """The verdict on a subject."""
    return finding(subject, told, cards).verdict


@cache
def _gathered(cards: Path) -> Known:
    return gather(cards)
