"""Schema: whether rows agree with each other, and records are what their files are named after."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from analysis.format import visible
from analysis.validation.contents import Contents
from analysis.validation.finding import Finding
from analysis.validation.sweeps import Sweep
from experiments.data.files import RowsError
from experiments.data.records import PROBES as PROBES
from experiments.data.records import Count, Counters, Probe, Record, Trace, read_records
from experiments.data.rows import ITEM_BYTES, Row

RECORDS: dict[str, type[Record]] = {
    "counts.jsonl": Count, "traces.jsonl": Trace, "counters.jsonl": Counters, PROBES: Probe,
}  # fmt: skip


def schema(contents: Contents, sweeps: list[Sweep]) -> Iterator[Finding]:
    """What is wrong with rows and records whose lines can be read by themselves."""
    for sweep in sweeps:
        yield from _identities(sweep)
        for job in sweep.jobs:
            for placed in job.rows:
                for what in _odd(placed.row, sweep, job.label):
                    yield Finding("schema", "misplaced", placed.where, what)
    for path in contents.data:
        if path.name in RECORDS:
            yield from _record(contents, path.name, str(path))


def _identities(sweep: Sweep) -> Iterator[Finding]:
    """Each identity is one row's, and each key one measurement's."""
    known: dict[tuple[Any, ...], str] = {}
    said: dict[str, tuple[tuple[Any, ...], str]] = {}
    for placed in sweep.rows:
        row = placed.row
        identity = row.key, row.card, row.round, row.attempt
        if identity in known:
            what = f"the same key, card, round and attempt as {known[identity]}"
            yield Finding("schema", "duplicate", placed.where, what)
        known.setdefault(identity, placed.where)
        measured = row.kernel, str(row.params), row.rows, row.cols, row.dtype, row.gpu
        before, where = said.setdefault(row.key, (measured, placed.where))
        if before != measured:
            what = f"its key is that of another point, {where}"
            yield Finding("schema", "duplicate", placed.where, what)


def _odd(row: Row, sweep: Sweep, label: str) -> Iterator[str]:
    if sweep.name is not None and row.sweep != sweep.name:
        yield f"a row of sweep {visible(row.sweep, 40)!r} in the folder of {sweep.name!r}"
    if row.kernel != label.split(",")[0]:
        yield f"a row of {visible(row.kernel, 40)!r} in the folder of {label!r}"
    if row.dtype not in ITEM_BYTES:
        yield f"dtype {visible(row.dtype, 40)!r}; known are {', '.join(ITEM_BYTES)}"


def _record(contents: Contents, name: str, path: str) -> Iterator[Finding]:
    try:
        for _ in read_records(contents.folder / path, RECORDS[name]):
            pass
    except RowsError as error:
        where, _, what = str(error).removeprefix(f"{contents.folder / path}:").partition(": ")
        yield Finding("schema", "no record", f"{path}:{where}", visible(what, 160))
