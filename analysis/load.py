"""Rows on disk as one table with the derived columns, and the records and declarations beside them.

This is the ground of every room of analysis: what a command reads is one `Inputs`.
"""

from __future__ import annotations

import contextlib
import gc
import hashlib
import json
import weakref
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, wraps
from operator import itemgetter
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

import pandas as pd

from analysis.cache import cached, each_once
from analysis.format import LONGEST_NAME, shown, visible
from experiments.data.files import RowsError, files_below, read_json, validated
from experiments.data.jobs import Declaration
from experiments.data.metrics import DERIVED, derived, latest
from experiments.data.packed import is_archive, packed_below, unpacked
from experiments.data.records import (
    COUNTERS,
    COUNTS,
    HOSTCOST,
    TRACES,
    Count,
    Counters,
    HostCost,
    Record,
    Trace,
    read_records,
)
from experiments.data.rows import Row, read_rows, rows_files

OUTPUTS = Path("outputs")
REFERENCE = "reference"
COUNTED = OUTPUTS / REFERENCE / "counts"  # counts and traces, which are the same on every machine

COLUMNS = [*Row.model_fields, *DERIVED, "recording"]
_OWN = [*DERIVED, "recording", "roof"]  # not of the row alone
_NAMES = ("key", "sweep", "recording", "operation", "kernel", "dtype", "gpu", "backend")
_TEXTS = ("params", "reason", "suspect", "environment", "stop_reason", "model_formula", "throttled")
_RECORD_TEXTS = ("kernel", "operation", "params", "gpu", "reason", "difference", "environment")
R = TypeVar("R", bound=Record)
T = TypeVar("T")
P = ParamSpec("P")
Key = tuple[str, str, int, int, str]


@dataclass(frozen=True)
class Records:
    """What was counted, traced, measured by counters and on the host, in a fixed order, each once.

    Of several host costs of one card the last counts.
    """

    counts: tuple[Count, ...] = ()
    traces: tuple[Trace, ...] = ()
    counters: tuple[Counters, ...] = ()
    hosts: tuple[HostCost, ...] = ()

    def counters_of(self, gpu: str) -> dict[Key, Counters]:
        """The counters of one card by variant, shape and dtype."""
        return {key_of(c.model_dump()): c for c in self.counters if c.gpu == gpu}


@dataclass(frozen=True)
class Inputs:
    """What a command reads, and where it writes."""

    rows: Path  # the folder or file that the rows were read from
    out: Path  # the folder to write into
    frame: pd.DataFrame  # the rows as `load` gives them
    records: Records
    declarations: Mapping[str, Declaration]  # what variants declare, by label
    place: str = ""  # where a packed recording lies, below the rows that were asked for

    @cached_property
    def packed(self) -> list[Inputs]:
        """Each recording packed below the rows that is none of them; ``place`` says where it lies.

        A ``rows.tar.gz`` is its folder's rows, which the inputs hold. Archives without rows are
        passed over.

        Raises:
            RowsError: an archive cannot be unpacked, or a line of it is no row.
        """
        found = [(archive, _unpacked(archive)) for archive in packed_below(self.rows)]
        return [
            replace(
                read_inputs(rows, self.out, ""),
                place=archive.relative_to(self.rows).as_posix().removesuffix(".tar.gz"),
            )
            for archive, rows in found
            if rows_files(rows)
        ]


def read_inputs(rows: Path | None, out: Path | None, kind: str) -> Inputs:
    """The inputs of a command that writes into ``kind/`` beside the rows unless ``out`` is given.

    Args:
        rows: A folder, rows file or packed recording; None for this machine's newest sweep, else
            the reference.
        out: The folder to write into.
        kind: The command's name.

    Raises:
        RowsError: there are no rows, or something read is malformed; it names file and line.
    """
    rows, out = places(rows, out, kind)
    return Inputs(rows, out, load(rows), load_records(rows), load_declarations(rows))


def places(rows: Path | None, out: Path | None, kind: str) -> tuple[Path, Path]:
    """Where a command reads and writes: what it was given, else the defaults of `read_inputs`.

    Raises:
        RowsError: there are no rows, an archive cannot be unpacked, or a link lies where files go.
    """
    rows = rows or newest_rows(OUTPUTS)
    folder = _folder(rows)
    if is_archive(rows):
        rows = _unpacked(rows)
    # what is drawn from the reference as a whole goes to the outputs, not into it
    beside = OUTPUTS if folder == OUTPUTS / REFERENCE else folder
    if out is None and (beside / kind).is_symlink():
        raise RowsError(f"{beside / kind} is a symbolic link; remove it, or name a folder: --out")
    return rows, out or beside / kind


def load(rows: Path) -> pd.DataFrame:
    """Every point below a folder or in a rows file once, with the derived columns.

    A point counts at its last attempt. A number that does not apply is NaN. Units are in the
    columns' names; ``above_roof`` is a bool. Texts are visible ones: whatever a file holds, it can
    be printed.

    Raises:
        RowsError: a line is malformed (named by file and line), or there are no rows at all.
    """
    if not rows.exists():
        raise RowsError(f"{rows}: no such folder; `make sweep` makes rows, --rows names them")
    with _collector_off():
        frame = _typed(cached(rows, rows_files(rows), columns_of))
    if frame.empty:
        raise RowsError(f"no rows in {rows}: run `make sweep`, or name a folder that has some")
    return frame


def once_per_frame(make: Callable[Concatenate[pd.DataFrame, P], T]) -> Callable[..., T]:
    """Remembers what ``make`` gave for a table as long as the table lives, which nobody changes.

    Pictures, tables, claims and the report ask for the same points of the same rows.
    """
    known: dict[tuple[int | str, ...], tuple[tuple[Any, ...], T]] = {}

    @wraps(make)
    def remembered(frame: pd.DataFrame, *more: P.args, **none: P.kwargs) -> T:
        place = (id(frame), *(one if isinstance(one, str) else id(one) for one in more))
        if place not in known:
            known[place] = more, make(frame, *more, **none)
            weakref.finalize(frame, known.pop, place, None)
        return known[place][1]

    return remembered


def newest_rows(outputs: Path) -> Path:
    """This machine's newest sweep below ``outputs``, else the committed reference.

    Raises:
        RowsError: there is neither.
    """
    reference = outputs / REFERENCE
    files = [f for f in rows_files(outputs) if not f.is_relative_to(reference)]
    if files:
        newest = max(files, key=lambda file: file.stat().st_mtime_ns)
        return outputs / newest.relative_to(outputs).parts[0]
    if rows_files(reference):
        return reference
    raise RowsError(f"no rows below {outputs}/: run `make sweep`, or name a folder with --rows")


def load_records(rows: Path, counted: Path = COUNTED) -> Records:
    """The records below ``rows`` and, where these lack a kind, those counted for every machine.

    Raises:
        RowsError: a line is not a record of its file's kind; it names file and line.
    """
    names = (COUNTS, TRACES, COUNTERS, HOSTCOST)
    own, shared = (files_below(_folder(one), *names) for one in (rows, counted))
    return Records(
        _records(Count, own[COUNTS] or shared[COUNTS]),
        _records(Trace, own[TRACES] or shared[TRACES]),
        _records(Counters, own[COUNTERS]),
        tuple(map(_host_cost, own[HOSTCOST])),
    )


def together(several: Sequence[Records]) -> Records:
    """The records of several recordings as those of one; of the same thing the last counts."""
    return Records(
        _each_once(one for each in several for one in each.counts),
        _each_once(one for each in several for one in each.traces),
        _each_once(one for each in several for one in each.counters),
        tuple(one for each in several for one in each.hosts),
    )


def load_declarations(rows: Path) -> dict[str, Declaration]:
    """Declarations by label, of all ``variants.json`` below ``rows``; the last of a label counts.

    Raises:
        RowsError: a file holds something else; it names the file.
    """
    folder = _folder(rows)
    found: dict[str, Declaration] = {}
    for path in files_below(folder, "variants.json")["variants.json"]:
        if "wandb" in path.relative_to(folder).parts:
            continue
        read = read_json(path)
        try:
            if not isinstance(read, dict):
                raise ValueError("no JSON object")
            for label, one in read.items():
                found[visible(label)] = validated(Declaration, shown(one))
        except ValueError as error:
            raise RowsError(f"{path}: no declarations of variants: {error}") from None
    return found


def kernel_name(label: str) -> str:
    """The kernel of a label: ``online`` of ``online,block_size=4096``."""
    return label.split(",")[0]


def key_of(record: Mapping[str, Any]) -> Key:
    """What a row and a record of the same variant, shape and dtype share."""
    params = json.dumps(record["params"], sort_keys=True, default=str)
    name = kernel_name(record["kernel"])
    return name, params, int(record["rows"]), int(record["cols"]), record["dtype"]


def rows_hash(frame: pd.DataFrame) -> str:
    """A short hash of which rows these are and what they measured, in whatever order they come."""
    columns = ["sweep", "key", "card", "round", "attempt", "status", "time_us"]
    return _hash(map(" ".join, zip(*(map(str, frame[c].tolist()) for c in columns), strict=True)))


def records_hash(records: Iterable[Record | HostCost]) -> str:
    """A short hash of which records these are, whatever order they come in."""
    return _hash(record.model_dump_json() for record in records)


def _hash(lines: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(sorted(lines)).encode()).hexdigest()[:12]


def _unpacked(archive: Path) -> Path:
    try:
        return unpacked(archive)
    except ValueError as error:
        raise RowsError(str(error)) from None


def _folder(rows: Path) -> Path:
    return rows.parent if rows.is_file() else rows


def columns_of(files: Iterable[Path]) -> dict[str, list[Any]]:
    """The rows of some files by column, `COLUMNS`; samples are arrays, texts are visible ones."""
    rows = latest(row for file in files for row in read_rows(file))
    columns: dict[str, list[Any]] = {name: [] for name in COLUMNS}
    for each, names in ((map(vars, rows), [*Row.model_fields]), (derived(rows), _OWN)):
        taken = map(itemgetter(*names), each)
        columns |= zip(names, map(list, zip(*taken, strict=True)), strict=False)  # of no rows none
    for name in _NAMES:
        columns[name] = each_once(_visible_name, columns[name])
    for name in _TEXTS:
        columns[name] = each_once(shown, columns[name])
    samples = columns["samples_us"]
    columns["samples_us"] = [None if one is None else array("d", one) for one in samples]
    return columns


def _typed(frame: pd.DataFrame) -> pd.DataFrame:
    """A column of nulls alone must be numbers too, where rows keep a number or null."""
    fields = Row.model_json_schema()["properties"]
    kinds = {name: {one.get("type") for one in fields[name].get("anyOf", [fields[name]])}
             for name in fields}  # fmt: skip
    numbers = [n for n in fields if kinds[n] <= {"integer", "number", "null"}]
    numbers += [name for name in DERIVED if name != "above_roof"]
    for name in numbers:
        if not pd.api.types.is_numeric_dtype(frame[name]):
            frame[name] = pd.to_numeric(frame[name])
    frame["above_roof"] = frame["above_roof"].eq(True)
    return frame


def _visible_name(name: str) -> str:
    return visible(name, LONGEST_NAME) or "(no name)"


@contextlib.contextmanager
def _collector_off() -> Iterator[None]:
    """Without the collector of cycles: rows make none, and it would walk all of them many times."""
    on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if on:
            gc.enable()


def _records(kind: type[R], paths: Iterable[Path]) -> tuple[R, ...]:
    return _each_once(_visible_record(r) for path in paths for r in read_records(path, kind))


def _each_once(records: Iterable[R]) -> tuple[R, ...]:
    """Of records of the same thing the last, ordered by what they are of."""
    known = {(key_of(r.model_dump()), str(getattr(r, "gpu", ""))): r for r in records}
    return tuple(known[key] for key in sorted(known))


def _host_cost(path: Path) -> HostCost:
    read = read_json(path)
    try:
        return validated(HostCost, shown(read))
    except ValueError as error:
        raise RowsError(f"{path}: {error}") from None


def _visible_record(record: R) -> R:
    """With visible texts, as rows have them."""
    names = [name for name in _RECORD_TEXTS if hasattr(record, name)]
    return record.model_copy(update={name: shown(getattr(record, name)) for name in names})
