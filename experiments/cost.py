"""What measuring itself costs, and whether it repeats: ``python -m experiments.cost DIR [OTHER]``.

Of one sweep's folder it prints how the wall time was spent; of two folders that hold the same
points, how many of their medians agree. Everything is read from recorded rows.
"""

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

AGREE_SHARE = 0.02
AGREE_US = 0.5


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


def agreement(base: Sequence[Row], other: Sequence[Row]) -> str:
    """How many points of two sweeps agree within the larger of 2 % and 0.5 µs, and the worst."""
    times = {row.identity: row.time_us for row in base if row.time_us is not None}
    pairs = [
        (times[row.identity], row.time_us, row)
        for row in other
        if row.time_us is not None and row.identity in times
    ]
    if not pairs:
        return "agreement   none: the two folders share no timed point"
    apart = [
        (abs(b - a) / a, a, b, row)
        for a, b, row in pairs
        if abs(b - a) > max(AGREE_SHARE * a, AGREE_US)
    ]
    agreed = len(pairs) - len(apart)
    lines = [
        f"agreement   {agreed} of {len(pairs)} points ({agreed / len(pairs):.1%}) within the "
        f"larger of {AGREE_SHARE:.0%} and {AGREE_US} µs"
    ]
    for share, a, b, row in sorted(apart, key=lambda item: -item[0])[:5]:
        lines.append(
            f"            {row.kernel} {row.rows}×{row.cols} {row.dtype}: "
            f"{a:.1f} µs and {b:.1f} µs ({share:.1%})"
        )
    return "\n".join(lines)


def main() -> None:
    """Reads the folders named on the command line and prints what they cost."""
    parser = argparse.ArgumentParser(prog="python -m experiments.cost", description=__doc__)
    parser.add_argument("folder", type=Path, help="a sweep's folder")
    parser.add_argument("other", type=Path, nargs="?", help="another, of the same points")
    chosen = parser.parse_args()
    try:
        rows = load(chosen.folder)
        if not rows:
            sys.exit(f"error: {chosen.folder} holds no rows")
        notes = recording(chosen.folder) / "sessions.jsonl"
        text = notes.read_text() if notes.exists() else ""
        # a line without its end was cut short by a crash
        whole = [line for line in text.splitlines(keepends=True) if line.endswith("\n")]
        print(spending(rows, [json.loads(line) for line in whole]))
        if chosen.other is not None:
            print(agreement(rows, load(chosen.other)))
    except (RowsError, OSError, ValueError) as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
