"""Columnar copies on disk: kept whole or not at all, and never used once they are stale.

``.rows/index.json`` in a unit's folder tells of which state of which files and by which code the
copy was made, and names its two files, rows and samples, by the digests of what they hold.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
import time
from functools import cache
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from analysis.columns.convert import Part, to_arrow
from analysis.columns.samples import SamplesFile
from analysis.columns.units import State, Unit
from analysis.load import points

FOLDER = ".rows"
ROOT = Path(__file__).parents[2]
# All that decides what rows files come to.
CODE = (
    *(f"analysis/columns/{name}.py" for name in ("schema", "convert", "store")),
    *("analysis/load.py", "analysis/format.py"),
    *("experiments/data/rows.py", "experiments/data/metrics.py"),
)
SETTLED_NS = 2 * 10**9  # no clock of a file system is coarser


def read(unit: Unit) -> Part | None:
    """The unit's copy; None where there is none, or it is damaged, or no longer the rows'."""
    folder = unit.folder / FOLDER
    try:
        index = json.loads((folder / "index.json").read_bytes())
        if index["code"] != code() or index["files"] != unit.state():
            return None
        rows, samples = folder / index["rows"], folder / index["samples"]
        data = rows.read_bytes()
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
    if _digest(data) != rows.stem:
        return None
    return Part(pq.read_table(pa.BufferReader(data)), SamplesFile(samples))


def build(unit: Unit, where: str) -> Part:
    """Reads the unit's rows, and keeps them as columns unless they are still being written.

    Raises:
        RowsError: a row is refused; see `analysis.load.points`.
    """
    before, now = unit.state(), time.time_ns()
    rows, samples = to_arrow(points(unit.files, where))
    part = Part(rows, SamplesFile(unit.folder, samples.column(0).to_numpy()))
    if unit.state() != before or _fresh(before, now):
        return part
    with contextlib.suppress(OSError):  # of a folder of somebody else's, or on a full disk
        names = _keep(unit.folder / FOLDER, before, rows, samples)
        return Part(rows, SamplesFile(unit.folder / FOLDER / names[1]))
    return part


def _fresh(files: State, now_ns: int) -> bool:
    """Whether a file was just written: its clock may not tell the next change from that one."""
    return any(now_ns - int(changed) < SETTLED_NS for _, _, changed, _ in files)


def _keep(folder: Path, files: State, *tables: pa.Table) -> list[str]:
    """Writes all, the index last, and returns the tables' names."""
    folder.mkdir(exist_ok=True)
    names = []
    for table in tables:
        buffer = pa.BufferOutputStream()
        pq.write_table(table, buffer, compression="zstd")
        data = buffer.getvalue().to_pybytes()
        names.append(f"{_digest(data)}.parquet")
        _replace(folder / names[-1], data)
    index = {"code": code(), "files": files, "rows": names[0], "samples": names[1]}
    _replace(folder / "index.json", json.dumps(index).encode())
    for path in folder.iterdir():  # an earlier copy, or what a crash left
        if path.name not in ("index.json", *names):
            path.unlink(missing_ok=True)
    return names


@cache
def code() -> str:
    """A digest of the code that makes a copy."""
    return _digest(b"".join((ROOT / name).read_bytes() for name in CODE))


def _replace(path: Path, data: bytes) -> None:
    scratch = path.with_name(f"{secrets.token_hex(8)}.tmp")
    scratch.write_bytes(data)
    os.replace(scratch, path)


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
