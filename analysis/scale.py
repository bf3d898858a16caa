"""``python -m analysis.scale``: what 10⁴, 10⁵ and 10⁶ generated rows cost to read and to draw.

A year of nights is generated from a recorded sweep, a folder a night as sweeps write them: cards
and nights differ by a factor of their own, samples are drawn from the recorded ones, code changes
once a week. None of it is measured. The rows are read twice, each time by a process of its own:
from JSON lines, which makes the copies of `analysis.cache`, and from these. No test runs it whole.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from analysis.cache import FOLDER
from analysis.format import Table, thousands
from experiments.data.files import RowsError
from experiments.data.packed import recording
from experiments.data.rows import read_rows, rows_files
from experiments.data.statistics import median

COUNTS = (10_000, 100_000, 1_000_000)
SOURCE = Path("outputs") / "reference" / "h200"
CARDS, ROUNDS, SAMPLES = 2, 2, 50
CARD_SPREAD, NIGHT_SPREAD = 0.01, 0.005  # standard deviations of the factors
DAY_S = 86400
STEPS = ("load", "table", "figure", "manifest")
NOTES = (
    "Wall-clock seconds, and in brackets processor seconds. Build: the first load, from JSON "
    "lines. The others are of a second process, from the copies: load, the main table, D-fig1, "
    "and the digests of all rows that stand beside what is made.",
    "Growth: processor seconds per row, over those of the line above; linear is 1 or less.",
)
Job = tuple[Path, list[dict[str, Any]]]
Costs = dict[str, float]


def main(arguments: Sequence[str] | None = None) -> int:
    """Generates, measures, prints; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m analysis.scale", description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=COUNTS, metavar="COUNT")
    parser.add_argument("--source", type=Path, default=SOURCE, help="the recorded sweep")
    parser.add_argument("--out", type=Path, help="keeps the rows there; default: nowhere")
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)  # in a process of its own
    chosen = parser.parse_args(arguments)
    if chosen.measure:
        print(json.dumps(measure(chosen.measure, chosen.out)))
        return 0
    with tempfile.TemporaryDirectory() as scratch:
        try:
            costs = [_costs(n, chosen.source, chosen.out or Path(scratch)) for n in chosen.rows]
        except (RowsError, OSError) as error:
            print(f"error: {error}", file=sys.stderr)
            return 2
    print(table(costs).markdown())
    return 0


def table(costs: Sequence[Costs]) -> Table:
    """One line per number of rows, and how the cost of a row grows from line to line."""
    heads = ["rows", "JSON MB", "copy MB", "build s", *(f"{step} s" for step in STEPS),
             "all s", "peak MB", "growth"]  # fmt: skip
    lines = []
    for before, one in zip([None, *costs], costs, strict=False):
        growth = "" if before is None else f"{_each(one) / _each(before):.2f}"
        lines.append([
            thousands(int(one["rows"])), f"{one['json_bytes'] / 1e6:,.0f}",
            f"{one['copy_bytes'] / 1e6:,.1f}", _seconds(one, ["build"]),
            *(_seconds(one, [step]) for step in STEPS), _seconds(one, STEPS),
            f"{one['peak_bytes'] / 1e6:,.0f}", growth,
        ])  # fmt: skip
    return Table(f"Rows of {SAMPLES} samples each", heads, lines, NOTES)


def measure(rows: Path, out: Path) -> Costs:
    """Loads ``rows``, writes the main table and D-fig1 below ``out``: seconds, bytes at most."""
    from analysis.figures.specs import D_FIG1
    from analysis.gallery import pictures
    from analysis.load import read_inputs
    from analysis.output import write_manifest
    from analysis.tables import tables_of

    costs: Costs = {}

    def timed(step: str, run: Callable[[], Any]) -> Any:
        begun, used = time.perf_counter(), time.process_time()
        made = run()
        costs[f"{step}_s"] = time.perf_counter() - begun
        costs[f"{step}_cpu_s"] = time.process_time() - used
        return made

    inputs = timed("load", lambda: read_inputs(rows, out, "scale"))
    made = timed("table", lambda: [p for one in tables_of(inputs, ("main",))[0]
                                   for p in one.files(out)])  # fmt: skip
    made += timed("figure", lambda: [p for one in pictures(inputs, (D_FIG1,))
                                     for p in one.page.files(out)])  # fmt: skip
    timed("manifest", lambda: write_manifest("scale", rows, out, made))
    costs["rows"], costs["files"] = len(inputs.frame), len(made)
    costs["peak_bytes"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return costs


def generate(source: Path, out: Path, count: int, seed: int = 0) -> int:
    """Writes ``count`` rows below ``out``, a folder a night; returns how many nights they fill.

    Args:
        source: A recorded sweep, whose every row stands for a point of the preset.
        out: A folder that does not exist yet.
        count: Rows in all; the last night ends early.
        seed: Of what is drawn.

    Raises:
        RowsError: ``source`` has no rows.
        FileExistsError: there is something at ``out`` already.
    """
    source = recording(source)
    jobs = [(path, [row.model_dump() for row in read_rows(path)]) for path in rows_files(source)]
    if not any(rows for _, rows in jobs):
        raise RowsError(f"no rows in {source}: name a recorded sweep")
    dice = np.random.default_rng(seed)
    cards = 1 + CARD_SPREAD * dice.standard_normal(CARDS)
    out.mkdir(parents=True)
    left, night = count, 0
    while left > 0:
        factors = cards * (1 + NIGHT_SPREAD * dice.standard_normal())
        left -= _night(source, out / f"night-{night:04}", jobs, left, factors, dice)
        night += 1
    for i in range(night):  # each night's files get the age that they would have
        written = time.time() - (night - i) * DAY_S
        for path in rows_files(out / f"night-{i:04}"):
            os.utime(path, (written, written))
    return night


def _night(
    source: Path, out: Path, jobs: list[Job], most: int, factors: np.ndarray,
    dice: np.random.Generator,
) -> int:  # fmt: skip
    """Writes one night of at most ``most`` rows, and returns how many they are."""
    out.mkdir()
    sweep = f"{out.name}-{hashlib.sha256(out.name.encode()).hexdigest()[:6]}"
    (out / "sweep.json").write_text(json.dumps({"sweep": sweep}))
    if (source / "variants.json").exists():
        shutil.copy(source / "variants.json", out)
    written = 0
    for path, rows in jobs:
        folder = out / path.parent.relative_to(source)
        folder.mkdir(parents=True)
        shutil.copy(path.parent / "config.json", folder)
        visits = _visits(rows, sweep, factors, dice)
        lines = [json.dumps(row, separators=(",", ":")) for row in visits][: most - written]
        (folder / "rows.jsonl").write_text("".join(f"{line}\n" for line in lines))
        written += len(lines)
        if written == most:
            break
    return written


def _visits(
    rows: list[dict[str, Any]], sweep: str, factors: np.ndarray, dice: np.random.Generator
) -> Iterator[dict[str, Any]]:
    week = int(sweep.split("-")[1]) // 7
    commit = hashlib.sha1(f"week {week}".encode()).hexdigest()
    for row in rows:
        key = hashlib.sha256(f"{row['key']} {week}".encode()).hexdigest()[:20]
        own = {"sweep": sweep, "key": key, "environment": row["environment"] | {"commit": commit}}
        for visit in range(ROUNDS):
            for card, factor in enumerate(factors):
                yield row | own | {"card": card, "round": visit} | _times(row, factor, dice)


def _times(row: dict[str, Any], factor: float, dice: np.random.Generator) -> dict[str, Any]:
    if not row["samples_us"]:
        return {}
    recorded = np.asarray(row["samples_us"])
    samples = (recorded[dice.integers(0, len(recorded), SAMPLES)] * factor).round(3).tolist()
    middle = median(samples)
    return {
        "samples_us": samples,
        "time_us": middle.value,
        "time_low_us": middle.low,
        "time_high_us": middle.high,
        "wall_s": row["wall_s"] and row["wall_s"] * factor,
    }


def _costs(count: int, source: Path, out: Path) -> Costs:
    rows = out / f"rows-{count}"
    if not rows.exists():
        begun = time.perf_counter()
        nights = generate(source, rows, count)
        spent = time.perf_counter() - begun
        print(f"generated {count:,} rows of {nights:,} nights in {spent:.0f} s", file=sys.stderr)
    before = set(FOLDER.glob("*"))
    first, second = (_process(rows, out / f"made-{count}") for _ in range(2))
    copies = set(FOLDER.glob("*")) - before
    sizes = {
        "json_bytes": float(sum(path.stat().st_size for path in rows_files(rows))),
        "copy_bytes": float(sum(path.stat().st_size for path in copies)),
    }
    for path in copies:
        path.unlink()
    return second | sizes | {"build_s": first["load_s"], "build_cpu_s": first["load_cpu_s"]}


def _process(rows: Path, out: Path) -> Costs:
    command = [sys.executable, "-m", "analysis.scale", "--measure", str(rows), "--out", str(out)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise RowsError(f"{' '.join(command)}: exit status {done.returncode}")
    costs: Costs = json.loads(done.stdout)
    return costs


def _seconds(one: Mapping[str, float], steps: Sequence[str]) -> str:
    clock, processors = (sum(one[f"{step}_{end}"] for step in steps) for end in ("s", "cpu_s"))
    return f"{clock:.1f} ({processors:.1f})"


def _each(one: Mapping[str, float]) -> float:
    return sum(one[f"{step}_cpu_s"] for step in STEPS) / one["rows"]


if __name__ == "__main__":
    sys.exit(main())
