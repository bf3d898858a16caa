"""What can be said of a sweep's kernels where there is no card: by a worker on the CPU."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from experiments.errors import UserError
from experiments.sweep.client import Worker, WorkerDied, WorkerError
from experiments.sweep.jobs import Job
from experiments.sweep.planning import DESCRIBE_LIMIT_S


def describe_here(jobs: Sequence[Job], log: Path) -> None:
    """Has each different kernel described once, before anything is queued for hours.

    A login node without torch, or with no room for it, checks nothing: the shards' jobs will.

    Raises:
        UserError: a kernel cannot be built as configured.
    """
    worker = Worker("cpu", 0, log)
    different = {json.dumps(job.config["kernel"], sort_keys=True): job for job in jobs}
    limits = {"describing": DESCRIBE_LIMIT_S}
    try:
        for job in different.values():
            request = {"kernel": job.config["kernel"], "shapes": [[1, 1]], "dtypes": ["float32"]}
            try:
                asked = {"do": "describe", "job": request}
                reply = worker.request(asked, limits, "describing")
            except (WorkerError, WorkerDied):
                return
            if "error" in reply:
                raise UserError(f"kernel={job.kernel}: {reply['error']}")
    finally:
        worker.stop()
