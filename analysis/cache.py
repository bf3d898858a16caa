"""Rows of large sweeps as Parquet files in ``outputs/.rows``, one per sweep, named by what made it.

Rows stay the truth: a file's name is a digest of its rows files' paths, sizes and times of change
and of the code that reads them, so a stale one is never found. Deleting the folder costs the time
of one reading. Nothing is kept beside the rows, which may be a stranger's.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import sys
import time
from array import array
from collections.abc import Callable, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pandas as pd

from experiments.data.files import write_file

FOLDER = Path("outputs") / ".rows"
LARGE_BYTES = 8 * 2**20  # of rows files, some 5,000 rows: JSON takes a second there
SETTLED_NS = 2 * 10**9  # no clock of a file system is coarser
CODE = ("analysis/cache.py", "analysis/load.py", "analysis/format.py", "experiments/data/*.py")
JSON = ["params", "environment", "suspect", "throttled"]  # few different ones: rows share them
SAMPLES = "samples_us"  # arrays: a million lists would not fit in memory


def cached(
    folders: Sequence[Path], files: Sequence[Path], read: Callable[[list[Path]], pd.DataFrame]
) -> pd.DataFrame:
    """The table that ``read`` makes of ``files``, from kept copies where there are many rows.

    Args:
        folders: What was asked for; each sweep below them has a copy of its own.
        files: All rows files below them, in order.
        read: Makes the table of some of them.
    """
    small = sum(file.stat().st_size for file in files) < LARGE_BYTES
    if small or FOLDER.is_symlink() or find_spec("pyarrow") is None:  # a node does without
        return read(list(files))
    units: dict[Path, list[Path]] = {}
    for file in files:
        units.setdefault(_sweep_of(file, folders), []).append(file)
    frames = [_frame(root, unit, read) for root, unit in units.items()]
    sweeps = [name for frame in frames for name in frame["sweep"].unique()]
    if len(set(sweeps)) < len(sweeps):
        # of one point's rows the last attempt counts, in whichever folder it lies
        return read(list(files))
    whole = pd.concat(frames, ignore_index=True)
    for name in whole.columns.difference([*JSON, SAMPLES]):
        if pd.api.types.is_object_dtype(whole[name]) and whole[name].notna().any():
            whole[name] = whole[name].astype("str")
    return whole


def _sweep_of(file: Path, folders: Sequence[Path]) -> Path:
    """The folder of the outermost sweep that a file belongs to; without one, what was asked for."""
    top = next(folder for folder in folders if folder == file or folder in file.parents)
    above = [one for one in reversed(file.parents) if one == top or top in one.parents]
    return next((one for one in above if (one / "sweep.json").is_file()), top)


def _frame(
    root: Path, files: list[Path], read: Callable[[list[Path]], pd.DataFrame]
) -> pd.DataFrame:
    """The rows of one sweep, from its copy where there is one that is whole."""
    path = FOLDER / _name(root, files)
    with contextlib.suppress(OSError):
        data = path.read_bytes()
        if hashlib.sha256(data[32:]).digest() == data[:32]:
            return _decoded(pd.read_parquet(io.BytesIO(data[32:]), engine="pyarrow"))
    print(f"reading the rows of {root}, once", file=sys.stderr)
    frame = read(files)
    changed_ns = max(file.stat().st_mtime_ns for file in files)
    settled = time.time_ns() - changed_ns > SETTLED_NS  # a further change would show in the times
    if settled and path == FOLDER / _name(root, files):  # nobody wrote them meanwhile
        with contextlib.suppress(OSError):  # a full disk, or a folder of somebody else's
            _keep(path, frame)
    return frame


def _name(folder: Path, files: Sequence[Path]) -> str:
    """Of the folder, then of its files' state and the code: a change of these is another file."""
    stats = [(file, file.stat()) for file in files]
    state = [(str(f), s.st_size, s.st_mtime_ns, s.st_ctime_ns) for f, s in stats]
    texts = (str(folder.resolve()), f"{state} {_code()}")
    return "-".join(hashlib.sha256(text.encode()).hexdigest()[:32] for text in texts)


@cache
def _code() -> list[str]:
    root = Path(__file__).parents[1]
    paths = [path for pattern in CODE for path in sorted(root.glob(pattern))]
    return [hashlib.sha256(path.read_bytes()).hexdigest() for path in paths]


def _keep(path: Path, frame: pd.DataFrame) -> None:
    coded = {
        name: frame[name].map(json.dumps, na_action="ignore").astype("category") for name in JSON
    }
    buffer = io.BytesIO()
    frame.assign(**coded).to_parquet(buffer, engine="pyarrow", compression="zstd", index=False)
    data = buffer.getvalue()
    write_file(path, hashlib.sha256(data).digest() + data)
    for old in FOLDER.glob(f"{path.name.partition('-')[0]}-*"):
        if old != path:
            old.unlink(missing_ok=True)


def _decoded(frame: pd.DataFrame) -> pd.DataFrame:
    """What `_keep` wrote, as it was."""
    for name in JSON:
        known: dict[Any, Any] = {text: json.loads(text) for text in frame[name].dropna().unique()}
        frame[name] = pd.Series([known.get(text) for text in frame[name]], dtype=object)
    taken = [None if one is None else array("d", one.tobytes()) for one in frame[SAMPLES]]
    return frame.assign(**{SAMPLES: pd.Series(taken, dtype=object)})
