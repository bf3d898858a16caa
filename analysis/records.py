"""What was counted, traced and measured, as analysis finds it beside the rows."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from analysis.format import shown
from analysis.view import ITEM_BYTES
from experiments.data.records import Count, Counters, Record, Trace, read_records
from experiments.data.rows import RowsError

COUNTED = Path("outputs") / "reference" / "counts"  # what no machine changes: counts and traces
TEXTS = ("kernel", "operation", "params", "gpu", "reason", "difference", "environment")
KNOWN = ", ".join(ITEM_BYTES)
R = TypeVar("R", bound=Record)
Key = tuple[str, str, int, int, str]


@dataclass(frozen=True)
class Evidence:
    """Records of all three kinds, in a fixed order, each once.

    Attributes:
        counts: What a call requested.
        traces: In which order.
        counters: What a card's memory system moved.
    """

    counts: tuple[Count, ...] = ()
    traces: tuple[Trace, ...] = ()
    counters: tuple[Counters, ...] = ()

    def counters_of(self, gpu: str) -> dict[Key, Counters]:
        """The counters of one card by variant, shape and dtype."""
        return {key_of(c.model_dump()): c for c in self.counters if c.gpu == gpu}


def load_evidence(rows: Path, counted: Path = COUNTED) -> Evidence:
    """The records below ``rows`` and, where these lack a kind, those counted for every machine.

    Raises:
        RowsError: a line is no record of its file's kind; it names file and line.
    """
    return Evidence(
        _read("counts.jsonl", Count, rows, counted),
        _read("traces.jsonl", Trace, rows, counted),
        _read("counters.jsonl", Counters, rows),
    )


def kernel_name(label: str) -> str:
    """The kernel of a label: ``online`` of ``online,block_size=4096``."""
    return label.split(",")[0]


def key_of(record: Mapping[str, Any]) -> Key:
    """What a row and a record of the same variant, shape and dtype share."""
    params = json.dumps(record["params"], sort_keys=True, default=str)
    name = kernel_name(record["kernel"])
    return name, params, int(record["rows"]), int(record["cols"]), record["dtype"]


def _read(name: str, kind: type[R], *folders: Path) -> tuple[R, ...]:
    for folder in folders:
        place = folder.parent if folder.is_file() else folder
        found = sorted(place.rglob(name))
        if found:
            return _once(_readable(r, path) for path in found for r in read_records(path, kind))
    return ()


def _readable(record: R, path: Path) -> R:
    """With visible texts, as rows have them."""
    if record.dtype not in ITEM_BYTES:
        raise RowsError(f"{path}: a record's dtype is {record.dtype!r}; known are {KNOWN}")
    told = {name: getattr(record, name, None) for name in TEXTS}
    return record.model_copy(update={n: shown(t) for n, t in told.items() if t != shown(t)})


def _once(records: Iterable[R]) -> tuple[R, ...]:
    """Of records of the same thing the last, ordered by what they are of."""
    known = {(key_of(r.model_dump()), str(getattr(r, "gpu", ""))): r for r in records}
    return tuple(known[key] for key in sorted(known))
