"""A shard's job, on its node: an ordinary sweep on the one card that Slurm gave it."""

from __future__ import annotations

import signal
import sys
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from experiments.errors import SweepFailed, UserError
from experiments.sweep.driver import run
from experiments.sweep.jobs import Job
from experiments.sweep.record import write_json


def shard_folder(out: Path, shard: str) -> Path:
    """The folder of a shard's own sweep."""
    return out / "shards" / shard


def state_file(out: Path, shard: str) -> Path:
    """How a shard's latest job ended, written by the job itself."""
    return out / "slurm" / "shards" / f"{shard}.json"


@dataclass(frozen=True)
class Task:
    """What a Slurm job is submitted with.

    Attributes:
        id: The shard's folder.
        name: The shard as people read it: grid, GPU and variation.
        jobs: What the shard measures, its roofs among them.
        out: The whole sweep's folder, an absolute path on the shared file system.
        sweep: The sweep's name.
        points: How many points it has.
        request: Digest of the jobs and the code.
    """

    id: str
    name: str
    jobs: tuple[Job, ...]
    out: str
    sweep: str
    points: int
    request: str


def measure_shard(task: Task) -> None:
    """Measures the missing points of a shard; exits with its sweep's status."""
    # submitit would measure on after scancel, until it is killed, and ask to be started again
    signal.signal(signal.SIGTERM, _leave)
    signal.signal(signal.SIGUSR2, _leave)
    out, error, status = Path(task.out), None, 0
    try:
        write_json(shard_folder(out, task.id) / "sweep.json", {"sweep": task.sweep})
        run(task.jobs)
    except (SweepFailed, UserError) as failure:
        error, status = str(failure) or None, 1
        if isinstance(failure, UserError):
            print(f"error: {failure}", file=sys.stderr)
    write_json(state_file(out, task.id), {"job": job_number(), "status": status, "error": error})
    if status:
        sys.exit(status)


def job_number() -> str:
    """This job's number, as Slurm prints it."""
    import submitit

    return str(submitit.JobEnvironment().job_id)


def _leave(number: int, frame: FrameType | None) -> None:
    if number == signal.SIGUSR2:
        raise UserError(
            "its time was up (hydra.launcher.time), or others went first; the same command goes on"
        )
    raise SystemExit(128 + number)
