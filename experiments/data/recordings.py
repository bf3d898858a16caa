"""A recording: one sweep in a folder of few files, as ``outputs/reference`` keeps them.

``rows.jsonl.gz`` holds the rows of all its jobs, one job after another, and ``jobs.jsonl.gz`` has
a line for each job: its folder's name, how many of the rows are its own, and its configuration.
The sweep's small records lie beside them as they were.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from experiments.data.files import (
    RowsError,
    files_below,
    parse_json,
    read_json,
    read_lines,
    write_file,
)
from experiments.data.records import COUNTERS, HOSTCOST, PROBES
from experiments.data.rows import PACKED_ROWS, Row, read_rows, rows_files

JOBS = "jobs.jsonl.gz"
CONFIG = "config.json"
SMALL = ("sweep.json", "variants.json", "sessions.jsonl", COUNTERS, PROBES, HOSTCOST)
Place = tuple[str, int, int, int]


class RecordedJob(NamedTuple):
    """A job of a recording.

    Attributes:
        name: Its folder below the sweep's, such as ``wide/native-auto/online``.
        config: What Hydra composed; None where it was not recorded.
        rows: Its rows, in the order of writing.
    """

    name: str
    config: dict[str, Any] | None
    rows: list[Row]

    @property
    def last(self) -> dict[Place, Row]:
        """The last row of each point, by dtype, rows, cols and round."""
        return {(row.dtype, row.rows, row.cols, row.round): row for row in self.rows}


def pack(sweep: Path, out: Path) -> list[Path]:
    """Writes the sweep in a folder as a recording; returns the files written.

    Args:
        sweep: The sweep's folder: jobs with ``rows.jsonl`` below it, records in it.
        out: The recording's folder, which is made.

    Raises:
        RowsError: something in the folder is no row, or too large; it names file and line.
        OSError: a file cannot be written.
    """
    lines: list[bytes] = []
    jobs: list[str] = []
    for path in rows_files(sweep):
        own = [line for _, line, torn in read_lines(path) if not torn]
        config = path.parent / CONFIG
        found = read_json(config) if config.is_file() else None
        if isinstance(found, dict) and isinstance(found.get("tracker"), dict):
            found["tracker"]["entity"] = None  # a name of whoever measured
        name = path.parent.relative_to(sweep).as_posix()
        job = {"job": name, "rows": len(own), "config": found}
        lines += own
        jobs.append(json.dumps(job) + "\n")
    made = [
        write_file(out / PACKED_ROWS, _zipped(b"".join(lines))),
        write_file(out / JOBS, _zipped("".join(jobs).encode())),
    ]
    found = files_below(sweep, *SMALL)
    for name in SMALL:
        if found[name]:
            made.append(write_file(out / name, b"".join(one.read_bytes() for one in found[name])))
    return made


def recorded_jobs(folder: Path) -> Iterator[RecordedJob]:
    """The jobs of a sweep: of a recording, or of the folder in which it was measured.

    Raises:
        RowsError: a line is no row or no job; it names file and line.
    """
    if not (folder / JOBS).is_file():
        for path in rows_files(folder):
            config = path.parent / CONFIG
            name = path.parent.relative_to(folder).as_posix()
            found = read_json(config) if config.is_file() else None
            yield RecordedJob(name, found, list(read_rows(path)))
        return
    rows = read_rows(folder / PACKED_ROWS)
    for number, line, _ in read_lines(folder / JOBS):
        try:
            job = parse_json(line)
            own = [next(rows) for _ in range(job["rows"])]
            yield RecordedJob(str(job["job"]), job["config"], own)
        except (ValueError, LookupError, TypeError, StopIteration) as error:
            raise RowsError(
                f"{folder / JOBS}:{number}: no job of these rows: {error or 'too few rows'}"
            ) from None


def _zipped(data: bytes) -> bytes:
    return gzip.compress(data, mtime=0)
