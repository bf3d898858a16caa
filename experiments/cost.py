"""What measuring itself costs: ``python -m experiments.cost DIR``, from a sweep's recorded rows."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Sequence
from itertools import groupby
from pathlib import Path
from statistics import median, quantiles

from experiments.data.files import RowsError
from experiments.data.metrics import latest
from experiments.data.packed import recording
from experiments.data.rows import Row, read_rows, rows_files


def load(folder: Path) -> list[Row]:
    """Every attempt at every point below a folder."""
    return [row for path in rows_files(folder) for row in read_rows(path)]


def by_card(rows: Iterable[Row], elapsed_s: float) -> dict[int, str]:
    """How the time of each card went, whose seconds add up to the wall time ``elapsed_s``.

    Cards work side by side, so each has all of it, and seconds of two cards are not added up.
    The rest is planning, inputs, checks, and waiting for the other cards.
    """
    texts = {}
    for card, mine in groupby(sorted(rows, key=_card), key=_card):
        measured = list(mine)
        sampling, compiling = _seconds(measured, "sampling_s"), _seconds(measured, "compile_s")
        texts[card] = (
            f"sampling {sampling:.1f} s, compiling {compiling:.1f} s, "
            f"the rest {elapsed_s - sampling - compiling:.1f} s"
        )
    return texts


def spending(rows: Sequence[Row], sessions: Sequence[dict[str, float]]) -> str:
    """How the wall time went: over all, on each card, and for a point.

    Args:
        rows: Every attempt of a sweep's.
        sessions: What each run of the command noted, ``elapsed_s`` among it.
    """
    points = latest(rows)
    timed = [row for row in points if row.time_us is not None]
    wall = sum(session["elapsed_s"] for session in sessions)
    cards = by_card(rows, wall)
    lines = [
        f"points      {len(points)}, {len(timed)} of them timed, in {len(sessions)} run(s)",
        *([f"wall        {wall:.1f} s: {text}" for text in cards.values()] if len(cards) == 1
          else [f"wall        {wall:.1f} s, {len(cards)} cards side by side",
                *(f"{f'card {card}':11} {text}" for card, text in cards.items())]),
    ]  # fmt: skip
    if sum(session["points"] for session in sessions) < len(rows):
        lines.append("useful      unknown: a run was killed and left no account of its time")
    elif wall:
        useful = (_seconds(rows, "sampling_s") + _seconds(rows, "compile_s")) / wall / len(cards)
        of = " of the cards' time" if len(cards) > 1 else ""
        lines.append(f"useful      {useful:.0%}{of} is sampling or compiling")
    rest_ms = [
        1e3 * ((row.wall_s or 0) - (row.sampling_s or 0) - (row.compile_s or 0)) for row in timed
    ]
    if len(rest_ms) > 1:
        p95 = quantiles(rest_ms, n=20)[-1]
        lines.append(f"overhead    {median(rest_ms):.1f} ms a point (median), {p95:.1f} ms (p95)")
    return "\n".join(lines)


def _card(row: Row) -> int:
    return row.card


def _seconds(rows: Iterable[Row], field: str) -> float:
    return sum(getattr(row, field) or 0.0 for row in rows)


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
