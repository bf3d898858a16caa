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
from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, overload

import numpy as np
import pandas as pd

from experiments.data.files import write_file

FOLDER = Path("outputs") / ".rows"
LARGE_BYTES = 8 * 2**20  # of rows files, some 5,000 rows: JSON takes a second there
SETTLED_NS = 2 * 10**9  # no clock of a file system is coarser
CODE = ("analysis/cache.py", "analysis/load.py", "analysis/format.py", "experiments/data/files.py",
        "experiments/data/rows.py", "experiments/data/metrics.py")  # fmt: skip
JSON = ("params", "environment", "suspect", "throttled")  # few different ones: rows share them
SAMPLES = "samples_us"


class Samples(Sequence[float]):
    """A row's samples, µs, as a part of one array: a million lists would not fit in memory."""

    __slots__ = ("_values",)

    def __init__(self, values: np.ndarray) -> None:
        self._values = values

    def __len__(self) -> int:
        return len(self._values)

    @overload
    def __getitem__(self, index: int) -> float: ...
    @overload
    def __getitem__(self, index: slice) -> list[float]: ...
    def __getitem__(self, index: int | slice) -> float | list[float]:
        found: float | list[float] = self._values[index].tolist()
        return found

    def __iter__(self) -> Iterator[float]:
        return iter(self._values.tolist())


def cached(
    folders: Sequence[Path], files: Sequence[Path], read: Callable[[list[Path]], pd.DataFrame]
) -> pd.DataFrame:
    """The table that ``read`` makes of ``files``, from kept copies where there are many rows.

    Args:
        folders: What was asked for; each sweep below them has a copy of its own.
        files: All rows files below them, in order.
        read: Makes the table of some of them.
    """
    units = _units(folders, files)
    small = sum(file.stat().st_size for file in files) < LARGE_BYTES
    if small or FOLDER.is_symlink() or find_spec("pyarrow") is None:  # a node does without
        return read(list(files))
    paths = {root: FOLDER / _name(root, unit) for root, unit in units.items()}
    if lacking := sum(not path.exists() for path in paths.values()):
        print(f"reading the rows of {lacking:,} of {len(units):,} sweeps, once", file=sys.stderr)
    frames = []
    for root, unit in units.items():
        frame = _kept(path := paths[root])
        if frame is None:
            frame = read(unit)
            if path == FOLDER / _name(root, unit) and _settled(unit):  # nobody wrote them meanwhile
                with contextlib.suppress(OSError):  # a full disk, or a folder of somebody else's
                    _keep(path, frame)
        frames.append(frame)
    if sum(frame["sweep"].nunique() for frame in frames) > len(
        set().union(*(frame["sweep"].unique() for frame in frames))
    ):  # of one point's rows the last attempt counts, in whichever folder it lies
        return read(list(files))
    whole = pd.concat(frames, ignore_index=True)
    for name in whole.columns.difference([*JSON, SAMPLES]):
        if pd.api.types.is_object_dtype(whole[name]) and whole[name].notna().any():
            whole[name] = whole[name].astype("str")
    return whole


def _units(folders: Sequence[Path], files: Sequence[Path]) -> dict[Path, list[Path]]:
    """The files of each outermost sweep by its folder, and those in no sweep together."""
    sweeps: dict[Path, Path] = {}
    found: dict[Path, list[Path]] = {}
    for file in files:
        if file.parent not in sweeps:
            top = next(f for f in folders if f == file or f in file.parents)
            above = [p for p in file.parents if p == top or top in p.parents]
            roots = [p for p in reversed(above) if (p / "sweep.json").is_file()]
            sweeps[file.parent] = roots[0] if roots else top
        found.setdefault(sweeps[file.parent], []).append(file)
    return found


def _name(folder: Path, files: Sequence[Path]) -> str:
    """Of the folder, then of its files' state and the code: a change of these is another file."""
    root = Path(__file__).parents[1]
    stats = [(file, file.stat()) for file in files]
    state = [(str(f), s.st_size, s.st_mtime_ns, s.st_ctime_ns) for f, s in stats]
    code = [hashlib.sha256((root / name).read_bytes()).hexdigest() for name in CODE]
    texts = (str(folder.resolve()), f"{state} {code}")
    return "-".join(hashlib.sha256(text.encode()).hexdigest()[:32] for text in texts)


def _settled(files: Sequence[Path]) -> bool:
    """Whether a further change of these files would show in their times."""
    return time.time_ns() - max(file.stat().st_mtime_ns for file in files) > SETTLED_NS


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


def _kept(path: Path) -> pd.DataFrame | None:
    """What `_keep` wrote; None where it is missing or damaged."""
    try:
        data = path.read_bytes()
    except OSError:
        return None
    if hashlib.sha256(data[32:]).digest() != data[:32]:
        return None
    frame = pd.read_parquet(io.BytesIO(data[32:]), engine="pyarrow")
    for name in JSON:
        known: dict[Any, Any] = {text: json.loads(text) for text in frame[name].dropna().unique()}
        frame[name] = pd.Series([known.get(text) for text in frame[name]], dtype=object)
    taken = [None if one is None else Samples(one) for one in frame[SAMPLES]]
    return frame.assign(**{SAMPLES: pd.Series(taken, dtype=object)})
