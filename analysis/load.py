"""Rows on disk as one table, with the derived columns."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pandas as pd

from analysis.columns import frame_of
from analysis.readable import records
from experiments.data.metrics import DERIVED
from experiments.data.rows import Row, RowsError, rows_files

REFERENCE = "reference"
_FLAGS = ("above_roof",)


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
    where = _where(folders)
    frame = frame_of(folders, files, where)
    if frame is None:
        frame = _frame(records(files, where))
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


def _frame(rows: list[dict[str, Any]]) -> pd.DataFrame:
    frame = pd.DataFrame(rows, columns=[*Row.model_fields, *DERIVED])
    numbers = [name for name in frame.columns if _is_number(name)]
    frame[numbers] = frame[numbers].apply(pd.to_numeric)
    frame["above_roof"] = frame["above_roof"].eq(True)
    return frame


def _where(folders: list[Path]) -> str:
    return ", ".join(map(str, folders)) or "the given folders"


def _files(folder: Path) -> list[Path]:
    if not folder.exists():
        raise RowsError(f"{folder}: no such folder; `make sweep` makes rows, --rows names them")
    return rows_files(folder)


def _is_number(column: str) -> bool:
    """Whether rows keep a number or null there: a column of nulls alone must be one too."""
    if column in DERIVED:
        return column not in _FLAGS
    return str(Row.model_fields[column].annotation) in ("float | None", "int | None")
