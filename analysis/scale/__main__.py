"""``python -m analysis.scale``: what 10⁴, 10⁵ and 10⁶ generated rows cost to read and to draw.

Rows are generated below a folder, read twice by a process of their own each (once from JSON lines,
which makes the columnar copy, once from the copy), and the two are told. Nothing here is a test.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from analysis.cache import FOLDER
from analysis.format import Table, thousands
from analysis.scale.generate import SAMPLES, generate
from experiments.data.files import RowsError
from experiments.data.rows import rows_files

COUNTS = (10_000, 100_000, 1_000_000)
SOURCE = Path("outputs") / "reference" / "h200"
STEPS = ("load", "table", "figure", "manifest")
NOTES = (
    "Seconds of the clock, and in brackets of all processors. Build: the first load, from JSON "
    "lines. The others are of a second process, from the columnar copy: load, the main table, "
    "D-fig1, and the digests of all rows that stand beside what is made.",
    "Growth: seconds of the processors for each row, over those of the line above; linear is 1 or "
    "less.",
)
Told = dict[str, float]


def main(arguments: Sequence[str] | None = None) -> int:
    """Generates, measures, prints; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m analysis.scale", description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=COUNTS, metavar="COUNT")
    parser.add_argument("--source", type=Path, default=SOURCE, help="the recorded sweep")
    parser.add_argument("--out", type=Path, help="keeps the rows there; default: nowhere")
    chosen = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as scratch:
        try:
            told = [_measured(n, chosen.source, chosen.out or Path(scratch)) for n in chosen.rows]
        except (RowsError, OSError) as error:
            print(f"error: {error}", file=sys.stderr)
            return 2
    print(table(told).markdown())
    return 0


def table(told: Sequence[Told]) -> Table:
    """A line a number of rows, and how the cost of a row grows from line to line."""
    heads = ["rows", "JSON MB", "copy MB", "build s", *(f"{step} s" for step in STEPS),
             "all s", "peak MB", "growth"]  # fmt: skip
    lines = []
    for before, one in zip([None, *told], told, strict=False):
        growth = "" if before is None else f"{_each(one) / _each(before):.2f}"
        lines.append([
            thousands(int(one["rows"])), f"{one['json_bytes'] / 1e6:,.0f}",
            f"{one['copy_bytes'] / 1e6:,.1f}", _seconds(one, ["build"]),
            *(_seconds(one, [step]) for step in STEPS), _seconds(one, STEPS),
            f"{one['peak_bytes'] / 1e6:,.0f}", growth,
        ])  # fmt: skip
    return Table(f"Rows of {SAMPLES} samples each", heads, lines, NOTES)


def _measured(count: int, source: Path, out: Path) -> Told:
    rows = out / f"rows-{count}"
    if not rows.exists():
        begun = time.perf_counter()
        nights = generate(source, rows, count)
        spent = time.perf_counter() - begun
        print(f"generated {count:,} rows of {nights:,} nights in {spent:.0f} s", file=sys.stderr)
    before = set(FOLDER.glob("*"))
    first, second = (_process(rows, out / f"made-{count}") for _ in range(2))
    sizes = {
        "json_bytes": float(sum(path.stat().st_size for path in rows_files(rows))),
        "copy_bytes": float(sum(path.stat().st_size for path in set(FOLDER.glob("*")) - before)),
    }
    return second | sizes | {"build_s": first["load_s"], "build_cpu_s": first["load_cpu_s"]}


def _process(rows: Path, out: Path) -> Told:
    command = [sys.executable, "-m", "analysis.scale.measure", str(rows), str(out)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise RowsError(f"{' '.join(command)}: exit status {done.returncode}")
    told: Told = json.loads(done.stdout)
    return told


def _seconds(one: Mapping[str, float], steps: Sequence[str]) -> str:
    clock, processors = (sum(one[f"{step}_{end}"] for step in steps) for end in ("s", "cpu_s"))
    return f"{clock:.1f} ({processors:.1f})"


def _each(one: Mapping[str, float]) -> float:
    return sum(one[f"{step}_cpu_s"] for step in STEPS) / one["rows"]


if __name__ == "__main__":
    sys.exit(main())
