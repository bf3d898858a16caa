"""A figure made from records; rows may help it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import pandas as pd

from analysis.load import Records
from analysis.plate import Plate
from experiments.data.records import Counters, Record


@dataclass(frozen=True)
class EvidenceFigure:
    """One figure of the records.

    Attributes:
        id: The beginning of its files' names.
        needs: Which records it cannot do without, in one line.
        plates: Its pictures, none where the records do not allow any.
        caption: One sentence: what it shows, and which source's figure it draws again.
    """

    id: str
    needs: str
    plates: Callable[[Records, pd.DataFrame], list[Plate]]
    caption: str


def records_hash(records: Iterable[Record]) -> str:
    """A short hash of which records these are, whatever order they come in."""
    lines = sorted(record.model_dump_json() for record in records)
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:12]


def counters_told(seen: Sequence[Counters]) -> str:
    """Where counters come from: tool, commit and hash."""
    facts = [record.environment for record in seen]

    def stated(name: str) -> str:
        return "/".join(dict.fromkeys(str(fact[name])[:12] for fact in facts if name in fact))

    tool = f"hardware counters (ncu {stated('ncu')})" if stated("ncu") else "hardware counters"
    commit = stated("commit") or "unknown"
    return f"{tool}, commit {commit}, {records_hash(seen)} ({len(seen)})"
