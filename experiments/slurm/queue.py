"""What Slurm says of jobs, by ``squeue`` alone: accounting may be off."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable

WAITING = {"PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT"}
RUNNING = {"RUNNING", "COMPLETING", "SUSPENDED", "STOPPED", "RESIZING", "SIGNALING", "STAGE_OUT"}
LIMIT_S = 60


def states(jobs: Iterable[str]) -> dict[str, str] | None:
    """By job, Slurm's word for its state; a job that Slurm has forgotten is absent.

    None where Slurm gives no answer, which says nothing of the jobs.
    """
    wanted = set(jobs)
    if not wanted:
        return {}
    numbers = ",".join(sorted({job.partition("_")[0] for job in wanted}, key=int))
    command = ["squeue", "--noheader", "--array", "--states=all", "--format=%i %T"]
    try:
        said = subprocess.run(
            [*command, f"--jobs={numbers}"],
            capture_output=True, text=True, timeout=LIMIT_S, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return None
    if said.returncode and "Invalid job id" not in said.stderr:
        return None
    lines = (line.split() for line in said.stdout.splitlines())
    return {job: state for job, state, *_ in lines if job in wanted}
