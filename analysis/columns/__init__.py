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

LARGE_BYTES = 8 * 2**20  # of rows files, some 5,000 rows: JSON takes a second there


def frame_of(folders: Sequence[Path], files: Sequence[Path], where: str) -> pd.DataFrame | None:
    """The table of ``files`` by way of columnar copies, which are made where they are missing.

    Args:
        folders: What was asked for.
        files: All rows files below them, in order.
        where: The folders' name in an error.

    Returns:
        None where a copy does not pay, cannot be made, or would not be the same table.

    Raises:
        RowsError: a row is refused; see `analysis.load.points`.
    """
    size = sum(file.stat().st_size for file in files)
    units = units_of(folders, files) if size >= LARGE_BYTES else []
    if not units:
        return None
    if find_spec("pyarrow") is None:
        _tell(f"no pyarrow: {size / 1e6:,.0f} MB of rows are read as JSON, each time")
        return None
    from analysis.columns.convert import to_frame
    from analysis.columns.store import build, read

    kept = [read(unit) for unit in units]
    if lacking := kept.count(None):
        _tell(f"reading the rows of {lacking:,} of {len(units):,} folders, once")
    parts = [part or build(unit, where) for part, unit in zip(kept, units, strict=True)]
    sweeps = [name for part in parts for name in part.table["sweep"].unique().to_pylist()]
    if len(set(sweeps)) < len(sweeps):  # of one point's rows the last attempt counts, wherever
        _tell(f"{where}: a sweep lies in two folders, so rows are read as JSON, each time")
        return None
    return to_frame(parts)


def _tell(text: str) -> None:
    print(text, file=sys.stderr)
