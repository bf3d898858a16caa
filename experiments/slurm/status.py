"""How a sweep on Slurm stands: ``python -m experiments.slurm.status --out DIR`` (make status)."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from experiments.data.rows import rows_files
from experiments.slurm.records import SHARDS, slurm_folder
from experiments.slurm.state import Watch, failures, summary
from experiments.sweep.folder import read_json


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints each shard, then all in a line; 0 when every one is done, 1 when not, 2 on misuse."""
    parser = argparse.ArgumentParser(
        prog="python -m experiments.slurm.status", description="How a sweep on Slurm stands."
    )
    parser.add_argument("--out", type=Path, required=True, help="the sweep's folder")
    out = parser.parse_args(arguments).out
    shards = read_json(slurm_folder(out) / SHARDS).get("shards")
    if not shards:
        print(f"error: {out} holds no sweep on Slurm; name the out= of one", file=sys.stderr)
        return 2
    states = list(Watch(out).look(shards, rows_files(out)).values())
    for state in states:
        job = f"job {state.job}" if state.job else ""
        points = f"{state.done}/{state.points}"
        print(f"{state.word:8} {points:>9}  {state.name}  {job}".rstrip())
    for line in failures(states, out):
        print(line)
    print(summary(states))
    if not any(state.live for state in states):
        print("no job is left; the same command makes the table, and submits what is missing")
    return 0 if all(state.word == "done" for state in states) else 1


if __name__ == "__main__":
    sys.exit(main())
