"""A columnar copy of many rows: what `analysis.load` reads in place of JSON lines.

Rows stay the truth. The copy of a sweep lies in ``.rows/`` in the sweep's folder, holds the very
table that its rows make, and is made again as soon as one of its rows files or the code that reads
them is another. Deleting it costs the time of one reading.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import pandas as pd

from analysis.columns.units import units_of

LARGE_BYTES = 16 * 2**20  # of rows files, some 6,000 rows: below it reading JSON takes a second


def frame_of(folders: Sequence[Path], files: Sequence[Path], where: str) -> pd.DataFrame | None:
    """The table of ``files`` by way of columnar copies, which are made where they are missing.

    Args:
        folders: What was asked for.
        files: All rows files below them, in order.
        where: The folders' name in an error.

    Returns:
        None where a copy does not pay, cannot be made, or would not be the same table.

    Raises:
        RowsError: a row is refused; see `analysis.readable.records`.
    """
    size = sum(file.stat().st_size for file in files)
    units = units_of(folders, files) if size >= LARGE_BYTES else None
    if units is None:
        return None
    if find_spec("pyarrow") is None:
        _tell(f"without pyarrow {size / 1e6:,.0f} MB of rows are read as JSON, each time")
        return None
    from analysis.columns.convert import to_frame
    from analysis.columns.store import build, read

    parts = [read(unit) for unit in units]
    if lacking := parts.count(None):
        _tell(f"reading the rows of {lacking:,} of {len(units):,} folders, once")
    parts = [part or build(unit, where) for part, unit in zip(parts, units, strict=True)]
    whole = [part for part in parts if part is not None]
    sweeps = [name for part in whole for name in part.table["sweep"].unique().to_pylist()]
    if len(whole) < len(units) or len(set(sweeps)) < len(sweeps):
        _tell(f"{where}: a sweep lies in two folders, or")
        return None
    return to_frame(whole)


def _tell(text: str) -> None:
    print(text, file=sys.stderr)
