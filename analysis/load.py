"""Rows on disk as one table with the derived columns, and the records and declarations beside them.

This is the ground of every room of analysis: what a command reads is one `Inputs`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import pandas as pd
from pydantic import BaseModel, ConfigDict, ValidationError

from analysis.columns import frame_of
from analysis.format import LONGEST_NAME, shown, visible
from experiments.data.metrics import DERIVED, derive, latest
from experiments.data.records import Count, Counters, Record, Trace, read_records
from experiments.data.rows import Row, RowsError, read_rows, rows_files

OUTPUTS = Path("outputs")
REFERENCE = "reference"
COUNTED = OUTPUTS / REFERENCE / "counts"  # counts and traces, which are the same on every machine
ITEM_BYTES = {"float64": 8, "float32": 4, "float16": 2, "bfloat16": 2}
SHORTEST_US, LONGEST_US = 1e-9, 1e15

_FLAGS = ("above_roof",)
_NAMES = ("key", "sweep", "operation", "kernel", "dtype", "gpu", "backend")
_TEXTS = ("params", "reason", "suspect", "environment", "stop_reason", "model_formula", "throttled")
_RECORD_TEXTS = ("kernel", "operation", "params", "gpu", "reason", "difference", "environment")
R = TypeVar("R", bound=Record)
Key = tuple[str, str, int, int, str]


class Declaration(BaseModel):
    """A variant's own words and formulas, in elements; see `kernels.kernel.Kernel`."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    kernel: str
    target: str
    operation: str
    backend: str
    params: dict[str, Any]
    source: str
    idea: str
    formula: str
    reads: str
    writes: str
    latex: str
    on_chip: str


@dataclass(frozen=True)
class Records:
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


@dataclass(frozen=True)
class Inputs:
    """What a command reads, and where it writes.

    Attributes:
        rows: The folder or file that the rows were read from.
        out: The folder to write into.
        frame: The rows as `load` gives them.
        records: What was counted, traced and measured by counters.
        declarations: What variants declare, by label.
    """

    rows: Path
    out: Path
    frame: pd.DataFrame
    records: Records
    declarations: Mapping[str, Declaration]


def read_inputs(rows: Path | None, out: Path | None, kind: str) -> Inputs:
    """The inputs of a command that writes into ``kind/`` beside the rows unless ``out`` is given.

    Args:
        rows: A folder or rows file; None for this machine's newest sweep, else the reference.
        out: The folder to write into.
        kind: The command's name.

    Raises:
        RowsError: there are no rows, or something read is malformed; it names file and line.
    """
    rows = rows or newest_rows(OUTPUTS)
    folder = _folder(rows)
    # what is drawn from the reference as a whole goes to the outputs, not into it
    beside = OUTPUTS if folder == OUTPUTS / REFERENCE else folder
    return Inputs(
        rows, out or beside / kind, load(rows), load_records(rows), load_declarations(rows)
    )


def load(paths: Path | Iterable[Path]) -> pd.DataFrame:
    """Every point below ``paths`` once, at its last attempt, with the derived columns.

    A number that does not apply is NaN. Units are in the columns' names; ``above_roof`` is a bool.
    Texts are visible ones: whatever a file holds, it can be printed.

    Args:
        paths: Folders searched for ``rows.jsonl``, or rows files.

    Raises:
        RowsError: a line is malformed (named by file and line), or there are no rows at all.
    """
    folders = [paths] if isinstance(paths, Path) else list(paths)
    files = list(dict.fromkeys(file for folder in folders for file in _files(folder)))
    where = ", ".join(map(str, folders)) or "the given folders"
    frame = frame_of(folders, files, where)
    if frame is None:
        frame = _frame(points(files, where))
    if frame.empty:
        raise RowsError(f"no rows in {where}: run `make sweep`, or name a folder that has some")
    return frame


def newest_rows(outputs: Path) -> Path:
    """This machine's newest sweep below ``outputs``, else the committed reference.

    Raises:
        RowsError: there is neither.
    """
    reference = outputs / REFERENCE
    files = [f for f in rows_files(outputs) if not f.is_relative_to(reference)]
    if files:
        newest = max(files, key=lambda file: file.stat().st_mtime_ns)
        below = newest.relative_to(outputs).parts
        return outputs / below[0]
    if rows_files(reference):
        return reference
    raise RowsError(f"no rows below {outputs}/: run `make sweep`, or name a folder with --rows")


def points(files: Iterable[Path], where: str) -> list[dict[str, Any]]:
    """Every point of rows files once, at its last attempt, with the derived columns.

    Args:
        files: Rows files, in order.
        where: Their name in the message that refuses one of their rows.

    Raises:
        RowsError: a line is malformed (named by file and line), or its values cannot be.
    """
    rows = [row for file in files for row in read_rows(file)]
    unknown = sorted({row.dtype for row in rows} - set(ITEM_BYTES))
    if unknown:
        known = ", ".join(ITEM_BYTES)
        raise RowsError(f"{where}: a row's dtype is {unknown[0]!r}; known are {known}")
    _check_times(rows, where)
    return [_visible_row(row) for row in derive(latest(rows))]


def load_records(rows: Path, counted: Path = COUNTED) -> Records:
    """The records below ``rows`` and, where these lack a kind, those counted for every machine.

    Raises:
        RowsError: a line is no record of its file's kind; it names file and line.
    """
    return Records(
        _records("counts.jsonl", Count, rows, counted),
        _records("traces.jsonl", Trace, rows, counted),
        _records("counters.jsonl", Counters, rows),
    )


def load_declarations(rows: Path) -> dict[str, Declaration]:
    """Declarations by label, of all ``variants.json`` below ``rows``; the last of a label counts.

    Raises:
        RowsError: a file holds something else; it names the file.
    """
    folder = _folder(rows)
    found: dict[str, Declaration] = {}
    for path in sorted(folder.rglob("variants.json")):
        if "wandb" in path.relative_to(folder).parts:
            continue
        try:
            read = shown(json.loads(path.read_text(encoding="utf-8")))
            found |= {label: Declaration.model_validate(one) for label, one in read.items()}
        except (ValidationError, ValueError, AttributeError, RecursionError) as error:
            reason = str(error).splitlines()[0]
            raise RowsError(f"{path}: no declarations of variants: {reason}") from None
    return found


def kernel_name(label: str) -> str:
    """The kernel of a label: ``online`` of ``online,block_size=4096``."""
    return label.split(",")[0]


def key_of(record: Mapping[str, Any]) -> Key:
    """What a row and a record of the same variant, shape and dtype share."""
    params = json.dumps(record["params"], sort_keys=True, default=str)
    name = kernel_name(record["kernel"])
    return name, params, int(record["rows"]), int(record["cols"]), record["dtype"]


def records_hash(records: Iterable[Record]) -> str:
    """A short hash of which records these are, whatever order they come in."""
    lines = sorted(record.model_dump_json() for record in records)
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:12]


def _folder(rows: Path) -> Path:
    return rows.parent if rows.is_file() else rows


def _files(folder: Path) -> list[Path]:
    if not folder.exists():
        raise RowsError(f"{folder}: no such folder; `make sweep` makes rows, --rows names them")
    return rows_files(folder)


def _check_times(rows: Iterable[Row], where: str) -> None:
    """Refuses times that no clock measures: what is computed from them would not be finite."""
    for row in rows:
        for time in (row.time_us, row.time_low_us, row.time_high_us, *(row.samples_us or ())):
            if time and not SHORTEST_US <= time <= LONGEST_US:
                raise RowsError(
                    f"{where}: a row of {visible(row.kernel)} tells {time:g} µs; no time is below "
                    f"{SHORTEST_US:g} or above {LONGEST_US:g}"
                )


def _visible_row(row: dict[str, Any]) -> dict[str, Any]:
    names = {name: visible(row[name], LONGEST_NAME) or "(no name)" for name in _NAMES}
    return row | names | {name: shown(row[name]) for name in _TEXTS}


def _frame(rows: list[dict[str, Any]]) -> pd.DataFrame:
    frame = pd.DataFrame(rows, columns=[*Row.model_fields, *DERIVED])
    numbers = [name for name in frame.columns if _is_number(name)]
    frame[numbers] = frame[numbers].apply(pd.to_numeric)
    frame["above_roof"] = frame["above_roof"].eq(True)
    return frame


def _is_number(column: str) -> bool:
    """Whether rows keep a number or null there: a column of nulls alone must be one too."""
    if column in DERIVED:
        return column not in _FLAGS
    return str(Row.model_fields[column].annotation) in ("float | None", "int | None")


def _records(name: str, kind: type[R], *folders: Path) -> tuple[R, ...]:
    for folder in folders:
        found = sorted(_folder(folder).rglob(name))
        if found:
            read = (_visible_record(r, path) for path in found for r in read_records(path, kind))
            # of records of the same thing the last, ordered by what they are of
            known = {(key_of(r.model_dump()), str(getattr(r, "gpu", ""))): r for r in read}
            return tuple(known[key] for key in sorted(known))
    return ()


def _visible_record(record: R, path: Path) -> R:
    """With visible texts, as rows have them."""
    if record.dtype not in ITEM_BYTES:
        known = ", ".join(ITEM_BYTES)
        raise RowsError(f"{path}: a record's dtype is {record.dtype!r}; known are {known}")
    texts = {name: getattr(record, name, None) for name in _RECORD_TEXTS}
    return record.model_copy(update={n: shown(t) for n, t in texts.items() if t != shown(t)})
