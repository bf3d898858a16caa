"""What measuring itself costs: ``python -m experiments.cost DIR``, from a sweep's recorded rows."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import median, quantiles

from experiments.data.files import RowsError
from experiments.data.metrics import latest
from experiments.data.packed import recording
from experiments.data.rows import Row, read_rows, rows_files


def load(folder: Path) -> list[Row]:
    """The last attempt at every point below a folder."""
    return latest(row for path in rows_files(folder) for row in read_rows(path))


def spending(rows: Sequence[Row], sessions: Sequence[dict[str, float]]) -> str:
    """How the wall time went: over all, and for a point.

    Args:
        rows: A sweep's rows.
        sessions: What each run of the command noted, ``elapsed_s`` among it.
    """
    sampling = sum(row.sampling_s or 0 for row in rows)
    compiling = sum(row.compile_s or 0 for row in rows)
    wall = sum(session["elapsed_s"] for session in sessions)
    timed = [row for row in rows if row.time_us is not None]
    rest_ms = [
        1e3 * ((row.wall_s or 0) - (row.sampling_s or 0) - (row.compile_s or 0)) for row in timed
    ]
    lines = [
        f"points      {len(rows)}, {len(timed)} of them timed, in {len(sessions)} run(s)",
        f"wall        {wall:.1f} s: sampling {sampling:.1f} s, compiling {compiling:.1f} s",
    ]
    if sum(session["points"] for session in sessions) < len(rows):
        lines.append("useful      unknown: a run was killed and left no account of its time")
    elif wall:
        lines.append(f"useful      {(sampling + compiling) / wall:.0%} is sampling or compiling")
    if len(rest_ms) > 1:
        p95 = quantiles(rest_ms, n=20)[-1]
        lines.append(f"overhead    {median(rest_ms):.1f} ms a point (median), {p95:.1f} ms (p95)")
    return "\n".join(lines)


def main() -> None:
    """Reads the folder named on the command line and prints what it cost."""
    parser = argparse.ArgumentParser(prog="python -m experiments.cost", description=__doc__)
    parser.add_argument("folder", type=Path, help="a sweep's folder")
    folder = parser.parse_args().folder
    try:
        rows = load(folder)
        if not rows:
            sys.exit(f"error: {folder} holds no rows")
        notes = recording(folder) / "sessions.jsonl"
        text = notes.read_text() if notes.exists() else ""
        # a line without its end was cut short by a crash
        whole = [line for line in text.splitlines(keepends=True) if line.endswith("\n")]
        print(spending(rows, [json.loads(line) for line in whole]))
    except (RowsError, OSError, ValueError) as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
