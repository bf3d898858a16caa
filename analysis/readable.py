"""Rows as dictionaries fit to be shown: checked, each point once, with the derived columns."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from analysis.format import LONGEST_NAME, shown, visible
from analysis.view import ITEM_BYTES
from experiments.data.metrics import derive, latest
from experiments.data.rows import Row, RowsError, read_rows

SHORTEST_US, LONGEST_US = 1e-9, 1e15
_NAMES = ("key", "sweep", "operation", "kernel", "dtype", "gpu", "backend")
_TEXTS = ("params", "reason", "suspect", "environment", "stop_reason", "model_formula", "throttled")


def records(files: Iterable[Path], where: str) -> list[dict[str, Any]]:
    """Every point of rows files once, at its last attempt, with the derived columns.

    Args:
        files: Rows files, in order.
        where: What they are called where one of their rows is refused.

    Raises:
        RowsError: a line is malformed (named by file and line), or tells what cannot be.
    """
    rows = [row for file in files for row in read_rows(file)]
    unknown = sorted({row.dtype for row in rows} - set(ITEM_BYTES))
    if unknown:
        known = ", ".join(ITEM_BYTES)
        raise RowsError(f"{where}: a row's dtype is {unknown[0]!r}; known are {known}")
    _check_times(rows, where)
    return [_readable(row) for row in derive(latest(rows))]


def _check_times(rows: Iterable[Row], where: str) -> None:
    """Refuses times that no clock tells: what is made of them would not be finite."""
    for row in rows:
        for time in (row.time_us, row.time_low_us, row.time_high_us, *(row.samples_us or ())):
            if time and not SHORTEST_US <= time <= LONGEST_US:
                raise RowsError(
                    f"{where}: a row of {visible(row.kernel)} tells {time:g} µs; no time is below "
                    f"{SHORTEST_US:g} or above {LONGEST_US:g}"
                )


def _readable(row: dict[str, Any]) -> dict[str, Any]:
    names = {name: visible(row[name], LONGEST_NAME) or "(no name)" for name in _NAMES}
    return row | names | {name: shown(row[name]) for name in _TEXTS}
