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
from experiments.data.records import COUNTERS
from experiments.data.rows import PACKED_ROWS, Row, read_rows, rows_files

JOBS = "jobs.jsonl.gz"
CONFIG = "config.json"
SMALL = ("sweep.json", "variants.json", COUNTERS)
Place = tuple[str, int, int, int]


class RecordedJob(NamedTuple):
    """A job of a recording."""

    name: str  # its folder below the sweep's, such as ``wide/native-auto/online``
    config: dict[str, Any] | None  # what Hydra composed; None where it was not recorded
    rows: list[Row]  # in the order of writing

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
    rows, jobs = "", ""
    for one in recorded_jobs(sweep):
        if isinstance(one.config, dict) and isinstance(one.config.get("tracker"), dict):
            one.config["tracker"]["entity"] = None  # a name of whoever measured
        rows += "".join(f"{row.model_dump_json()}\n" for row in one.rows)
        jobs += json.dumps({"job": one.name, "rows": len(one.rows), "config": one.config}) + "\n"
    files = {PACKED_ROWS: gzip.compress(rows.encode(), mtime=0)}
    files[JOBS] = gzip.compress(jobs.encode(), mtime=0)
    for name, paths in files_below(sweep, *SMALL).items():
        if paths:
            files[name] = b"".join(path.read_bytes() for path in paths)
    return [write_file(out / name, data) for name, data in files.items()]


def recorded_jobs(folder: Path) -> Iterator[RecordedJob]:
    """The jobs of a sweep: of a recording, or of the folder in which it was measured.

    Raises:
        RowsError: a line is no row or no job; it names file and line.
    """
    if not (folder / JOBS).is_file():
        for path in rows_files(folder):
            config, name = path.with_name(CONFIG), path.parent.relative_to(folder).as_posix()
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
