"""The command line with Slurm's launcher, and what its sweep has on disk."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from experiments.sweep.record import read_object
from tests.conftest import DOUBLES, ROOT, Result
from tests.slurm.cluster import Cluster

LAUNCHER = ["hydra/launcher=slurm", "hydra.launcher.gres=null", "hydra.launcher.cpus_per_task=1"]


def command(out: Path, *arguments: str) -> list[str]:
    """A sweep through Slurm into ``out``."""
    run = [sys.executable, "-m", "experiments.run", "--config-dir", str(DOUBLES)]
    return [*run, f"out={out}", "tracker=none", "remeasure=false", *LAUNCHER, *arguments]


def submit(cluster: Cluster, out: Path, *arguments: str, timeout: float = 280) -> Result:
    """Runs a sweep to its end."""
    return _run(cluster, command(out, *arguments), out, timeout)


def shards(out: Path) -> dict[str, str]:
    """The Slurm job of each shard, by the shard's folder."""
    return read_object(out / "slurm" / "jobs.json")


def rows_of(out: Path, shard: str) -> int:
    """How many rows a shard has on disk."""
    files = out.glob(f"shards/{shard}/**/rows.jsonl")
    return sum(path.read_bytes().count(b"\n") for path in files)


def _run(cluster: Cluster, words: list[str], out: Path, timeout: float) -> Result:
    done = subprocess.run(
        words,
        cwd=ROOT,
        env=os.environ | cluster.variables,
        capture_output=True,
        text=True,
        timeout=timeout,
    )
    return Result(done.returncode, done.stdout, done.stderr, out)
