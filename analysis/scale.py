"""``python -m analysis.scale``: what 10⁴, 10⁵ and 10⁶ generated rows cost to read and to draw.

Nights are generated from a recorded sweep, a folder each as sweeps write them, whose times are the
recorded ones times a factor of the night: none of it is measured. Each command runs in a process of
its own. The first reads JSON lines and makes the copies of `analysis.cache`, the others read these.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from itertools import count as numbers
from pathlib import Path
from typing import Any

import numpy as np

from analysis.format import Table, thousands
from experiments.data.files import RowsError, write_file
from experiments.data.packed import recording
from experiments.data.rows import read_rows, rows_files

COUNTS = (10_000, 100_000, 1_000_000)
SOURCE = Path("outputs") / "reference" / "h200"
NIGHT_SPREAD = 0.005  # standard deviation of the nights' factors
SAMPLES = 50  # of a row that has a time
COMMANDS = {"first": "tables --only main", "again": "tables --only main",
            "D-fig1": "figures --only d_fig1"}  # fmt: skip
NOTE = (
    "Wall-clock seconds, and in brackets processor seconds, of whole commands: the main table from "
    "JSON lines (first), from the copies (again), and D-fig1 from the copies."
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Generates, runs the commands, prints; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m analysis.scale", description=__doc__)
    parser.add_argument("out", type=Path, help="a folder for the rows, which are kept there")
    parser.add_argument("--rows", type=int, nargs="+", default=COUNTS, metavar="COUNT")
    parser.add_argument("--source", type=Path, default=SOURCE, help="the recorded sweep")
    chosen = parser.parse_args(arguments)
    lines = []
    for count in chosen.rows:
        rows = chosen.out / f"rows-{count}"
        generate(chosen.source, rows, count)
        costs = [_cost(words, rows, chosen.out / name) for name, words in COMMANDS.items()]
        peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024 / 1e6
        lines.append([thousands(count), *costs, thousands(peak)])
    heads = ["rows", *(f"{name} s" for name in COMMANDS), "peak MB"]
    print(Table(f"Rows of {SAMPLES} samples each", heads, lines, [NOTE]).markdown())
    return 0


def generate(source: Path, out: Path, count: int) -> None:
    """Writes ``count`` rows below ``out``, a folder a night; the last night ends early.

    Raises:
        RowsError: ``source`` has no rows.
        FileExistsError: there is something at ``out`` already.
    """
    source = recording(source)
    jobs = [(path, [row.model_dump() for row in read_rows(path)]) for path in rows_files(source)]
    if not any(rows for _, rows in jobs):
        raise RowsError(f"no rows in {source}: name a recorded sweep")
    dice = np.random.default_rng(0)
    out.mkdir(parents=True)
    for night in numbers():
        sweep, factor = f"night-{night:04}", 1 + NIGHT_SPREAD * dice.standard_normal()
        write_file(out / sweep / "sweep.json", json.dumps({"sweep": sweep}))
        for path, rows in jobs:
            folder = out / sweep / path.parent.relative_to(source)
            folder.mkdir(parents=True)
            shutil.copy(path.parent / "config.json", folder)
            lines = [json.dumps(row) for row in _nightly(rows[:count], sweep, factor)]
            (folder / "rows.jsonl").write_text("".join(f"{line}\n" for line in lines))
            os.utime(folder / "rows.jsonl", (0, 0))  # copies are made of files that have settled
            count -= len(lines)
            if count == 0:
                return


def _nightly(rows: list[dict[str, Any]], sweep: str, factor: float) -> Iterator[dict[str, Any]]:
    for row in rows:
        times = {name: row[name] and row[name] * factor
                 for name in ("time_us", "time_low_us", "time_high_us")}  # fmt: skip
        samples = [sample * factor for sample in (row["samples_us"] or [])[:SAMPLES]]
        yield row | times | {"sweep": sweep, "samples_us": samples}


def _cost(words: str, rows: Path, out: Path) -> str:
    command = [sys.executable, "-m", "analysis", *words.split(), "--rows", str(rows)]
    begun, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([*command, "--out", str(out)], check=True, stdout=subprocess.DEVNULL)
    clock, after = time.perf_counter() - begun, resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return f"{clock:.1f} ({used:.1f})"


if __name__ == "__main__":
    sys.exit(main())
