"""A figure made from records; rows may help it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import pandas as pd

from analysis.plate import Plate
from analysis.records import Evidence
from experiments.evidence import Record


@dataclass(frozen=True)
class EvidenceFigure:
    """One figure of the records.

    Attributes:
        id: The beginning of its files' names.
        needs: Which records it cannot do without, in one line.
        plates: Its pictures, none where the records do not allow any.
    """

    id: str
    needs: str
    plates: Callable[[Evidence, pd.DataFrame], list[Plate]]


def records_hash(records: Iterable[Record]) -> str:
    """A short hash of which records these are, whatever order they come in."""
    lines = sorted(record.model_dump_json() for record in records)
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:12]
