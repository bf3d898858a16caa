"""Rows on disk as one table, with the derived columns."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pandas as pd

from analysis.view import ITEM_BYTES
from analysis.visible import LONGEST, shown, visible
from experiments.derived import DERIVED, derive, latest
from experiments.rows import Row, RowsError, read_rows, rows_files

REFERENCE = "reference"
SHORTEST_US, LONGEST_US = 1e-9, 1e15
_FLAGS = ("above_roof",)
_NAMES = ("key", "sweep", "operation", "kernel", "dtype", "gpu", "backend")
_TEXTS = ("params", "reason", "suspect", "environment", "stop_reason", "model_formula", "throttled")


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
    files = [file for folder in folders for file in _files(folder)]
    rows = [row for file in dict.fromkeys(files) for row in read_rows(file)]
    if not rows:
        raise RowsError(
            f"no rows in {_where(folders)}: run `make sweep`, or name a folder that has some"
        )
    unknown = sorted({row.dtype for row in rows} - set(ITEM_BYTES))
    if unknown:
        known = ", ".join(ITEM_BYTES)
        raise RowsError(f"{_where(folders)}: a row's dtype is {unknown[0]!r}; known are {known}")
    _check_times(rows, _where(folders))
    frame = pd.DataFrame([_readable(row) for row in derive(latest(rows))])
    numbers = [name for name in frame.columns if _is_number(name)]
    frame[numbers] = frame[numbers].apply(pd.to_numeric)
    frame["above_roof"] = frame["above_roof"].eq(True)
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


def _check_times(rows: Iterable[Row], where: str) -> None:
    """Refuses times that no clock tells: what is made of them would not be finite."""
    for row in rows:
        for time in (row.time_us, row.time_low_us, row.time_high_us, *(row.samples_us or ())):
            if time and not SHORTEST_US <= time <= LONGEST_US:
                raise RowsError(
                    f"{where}: a row of {visible(row.kernel)} tells {time:g} µs; no time is below "
                    f"{SHORTEST_US:g} or above {LONGEST_US:g}"
                )


def _where(folders: list[Path]) -> str:
    return ", ".join(map(str, folders)) or "the given folders"


def _readable(row: dict[str, Any]) -> dict[str, Any]:
    names = {name: visible(row[name], LONGEST) or "(no name)" for name in _NAMES}
    return row | names | {name: shown(row[name]) for name in _TEXTS}


def _files(folder: Path) -> list[Path]:
    if not folder.exists():
        raise RowsError(f"{folder}: no such folder; `make sweep` makes rows, --rows names them")
    return rows_files(folder)


def _is_number(column: str) -> bool:
    """Whether rows keep a number or null there: a column of nulls alone must be one too."""
    if column in DERIVED:
        return column not in _FLAGS
    return str(Row.model_fields[column].annotation) in ("float | None", "int | None")
