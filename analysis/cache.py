"""Rows of large sweeps as Arrow files in ``outputs/.rows``, one per sweep, named by what made it.

Rows stay the truth: a file's name is a digest of its rows files' paths, sizes and times of change
and of the code that reads them, so a stale one is never found. Deleting the folder costs the time
of one reading. Nothing is kept beside the rows, which may be a stranger's.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from array import array
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

if TYPE_CHECKING:
    import pyarrow as pa

from experiments.data.files import RowsError, write_file

ROOT = Path(__file__).parents[1]
FOLDER = Path("outputs") / ".rows"
LARGE_BYTES = 8 * 2**20  # of rows files, some 5,000 rows: JSON takes a second there
MANY_BYTES = 2**26  # of them, for each process that reads: it takes two seconds to start
MOST_PROCESSES = 8  # each holds a sweep in memory
SETTLED_NS = 2 * 10**9  # no clock of a file system is coarser
CODE = ("analysis/cache.py", "analysis/load.py", "analysis/format.py", "experiments/data/*.py")
JSON = ["params", "environment", "suspect", "throttled"]  # few different ones: rows share them
Columns = dict[str, list[Any]]
SAMPLES = "samples_us"  # arrays: a million lists would not fit in memory


def cached(
    top: Path, files: Sequence[Path], read: Callable[[Sequence[Path]], Columns]
) -> pd.DataFrame:
    """The table that ``read`` makes of ``files``, from kept copies where there are many rows.

    Args:
        top: What was asked for; each sweep below it has a copy of its own.
        files: All rows files below it, in order.
        read: Gives the columns of some of them.
    """
    small = sum(file.stat().st_size for file in files) < LARGE_BYTES
    if small or FOLDER.is_symlink() or find_spec("pyarrow") is None:  # a node does without
        return pd.DataFrame(read(files))
    sweeps: dict[Path, Path | None] = {}

    def sweep(place: Path) -> Path | None:
        """The outermost sweep's folder at a place or above it."""
        if place not in sweeps:
            above = None if place == top else sweep(place.parent)
            sweeps[place] = above or (place if (place / "sweep.json").is_file() else None)
        return sweeps[place]

    units: dict[Path, list[Path]] = defaultdict(list)
    for file in files:
        units[sweep(top if file == top else file.parent) or top].append(file)
    with _helped(units):
        tables = [_table(root, unit, read) for root, unit in units.items()]
    names = [name for table in tables for name in table["sweep"].unique().to_pylist()]
    if len(set(names)) < len(names):
        # of one point's rows the last attempt counts, in whichever folder it lies
        return pd.DataFrame(read(files))
    return _decoded(tables)


@contextlib.contextmanager
def _helped(units: Mapping[Path, Sequence[Path]]) -> Iterator[None]:
    """Other processes make copies of the sweeps that come last, until the caller is done.

    They begin at the end, and the caller at the beginning: where they meet, copies are found. What
    one of them cannot read, the caller reads, and says what is wrong.
    """
    lacking = [(root, unit) for root, unit in units.items() if not _copy(root, unit).exists()]
    size = sum(file.stat().st_size for _, unit in lacking for file in unit)
    helpers = min(os.cpu_count() or 1, len(lacking), size // MANY_BYTES, MOST_PROCESSES) - 1
    started = []
    for first in range(helpers):
        work = [[str(root), *map(str, unit)] for root, unit in lacking[::-1][first::helpers]]
        path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
        with tempfile.TemporaryFile("w+") as work_file:  # a pipe holds less than it may be
            json.dump(work, work_file)
            work_file.seek(0)
            process = subprocess.Popen(
                [sys.executable, "-m", "analysis.cache"],
                stdin=work_file,
                stderr=subprocess.DEVNULL,
                env=os.environ | {"PYTHONPATH": path},
            )
            started.append(process)
    try:
        yield
    finally:
        for process in started:
            process.terminate()
            process.wait()


def main() -> None:
    """Makes the copies of the sweeps that the standard input lists, but those that are there."""
    from analysis.load import columns_of

    signal.signal(signal.SIGTERM, lambda *_: sys.exit())  # so that a half-written copy goes
    for root, *files in json.load(sys.stdin):
        unit = [*map(Path, files)]
        with contextlib.suppress(RowsError, OSError):  # the parent comes there, and says so
            if not _copy(Path(root), unit).exists():
                _table(Path(root), unit, columns_of)


def _copy(root: Path, files: Sequence[Path]) -> Path:
    return FOLDER / _name(root, files)


def _table(
    root: Path, files: Sequence[Path], read: Callable[[Sequence[Path]], Columns]
) -> pa.Table:
    """The rows of one sweep, from its copy where there is one that is whole."""
    from pyarrow import BufferReader, feather

    path = _copy(root, files)
    with contextlib.suppress(OSError):
        data = memoryview(path.read_bytes())
        if hashlib.sha256(data[32:]).digest() == data[:32]:
            return feather.read_table(BufferReader(data[32:]))
    print(f"reading the rows of {root}, once", file=sys.stderr)
    table = _coded(read(files))
    changed_ns = max(file.stat().st_mtime_ns for file in files)
    settled = time.time_ns() - changed_ns > SETTLED_NS  # a further change would show in the times
    if settled and path == _copy(root, files):  # nobody wrote them meanwhile
        with contextlib.suppress(OSError):  # a full disk, or a folder of somebody else's
            _keep(path, table)
    return table


def _name(folder: Path, files: Sequence[Path]) -> str:
    """Of the folder, then of its files' state and the code: a change of these is another file."""
    stats = [(file, file.stat()) for file in files]
    state = [(str(f), s.st_size, s.st_mtime_ns, s.st_ctime_ns) for f, s in stats]
    texts = (str(folder.resolve()), f"{state} {_code()}")
    return "-".join(hashlib.sha256(text.encode()).hexdigest()[:32] for text in texts)


@cache
def _code() -> list[str]:
    paths = [path for pattern in CODE for path in sorted(ROOT.glob(pattern))]
    return [hashlib.sha256(path.read_bytes()).hexdigest() for path in paths]


def _keep(path: Path, table: pa.Table) -> None:
    from pyarrow import feather

    buffer = io.BytesIO()
    feather.write_feather(table, buffer, compression="lz4")
    data = buffer.getvalue()
    write_file(path, hashlib.sha256(data).digest() + data)
    for old in FOLDER.glob(f"{path.name.partition('-')[0]}-*"):
        if old != path:
            old.unlink(missing_ok=True)


def _coded(columns: Columns) -> pa.Table:
    """Columns in Arrow's types: values of `JSON` as their texts, each once, samples as bytes."""
    import pyarrow as pa

    def text(value: Any) -> str | None:
        return None if value is None else json.dumps(value)

    texts = pa.dictionary(pa.int32(), pa.string())
    coded = {name: pa.array(each_once(text, columns[name]), texts) for name in JSON}
    samples = [None if one is None else one.tobytes() for one in columns[SAMPLES]]
    return pa.table(columns | coded | {SAMPLES: pa.array(samples, pa.large_binary())})


def _decoded(tables: list[pa.Table]) -> pd.DataFrame:
    """The rows of all tables, as they were before `_coded`; memory is given back on the way."""
    import pyarrow as pa

    whole = pa.concat_tables(tables, promote_options="permissive")
    tables.clear()
    taken = (one for chunk in whole[SAMPLES].chunks for one in chunk.to_pylist())
    samples = [None if one is None else array("d", one) for one in taken]
    place, whole = whole.column_names.index(SAMPLES), whole.drop_columns(SAMPLES)
    frame: pd.DataFrame = whole.to_pandas(split_blocks=True, self_destruct=True)
    for name in JSON:
        known = [*map(json.loads, frame[name].cat.categories), None]  # of code -1
        values = [known[code] for code in frame[name].cat.codes]
        frame[name] = pd.Series(values, dtype=object)
    frame.insert(place, SAMPLES, pd.Series(samples, dtype=object))
    return frame


def each_once(change: Callable[[Any], Any], values: Sequence[Any]) -> list[Any]:
    """Values changed, each object and each list of texts once: rows share few of them."""
    keys = [tuple(one) if type(one) is list else id(one) for one in values]
    changed = {key: change(one) for key, one in dict(zip(keys, values, strict=True)).items()}
    return [changed[key] for key in keys]


if __name__ == "__main__":
    main()
