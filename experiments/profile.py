"""``python -m experiments.profile kernel=online grid=vocab``: points in ranges for any profiler.

It takes the arguments of ``experiments.run`` and makes, for each point, one warm call, a flush of
L2, and one call inside an NVTX range named after the point, the profiler started and stopped around
it. ``ncu --nvtx --profile-from-start off`` and ``nsys profile --capture-range=cudaProfilerApi
--capture-range-end=none`` see those calls alone. ``profiled.jsonl`` below ``out`` has a row per
point, with its range in the row's ``environment``.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from experiments.data.errors import SweepFailed, UserError
from experiments.data.records import write_records
from experiments.data.rows import Row
from experiments.parent.cards import WorkerPool, cards_of
from experiments.parent.client import LEAVING_LIMIT_S
from experiments.parent.jobs import Job, options_of
from experiments.parent.plan import make_plan
from experiments.parent.record import outcome_of, row_of
from experiments.run import main

LIST = "profiled.jsonl"


def profile(jobs: Sequence[Job], cards: Any = (0,)) -> None:
    """Calls the kernel of every supported point once inside a profiler range.

    Args:
        jobs: All jobs, as composed; jobs of roofs are not added.
        cards: The launcher's option; jobs that pin no card run on the first of them.

    Raises:
        UserError: the request cannot be met, or there is no CUDA device.
        SweepFailed: a point failed.
    """
    jobs = list({job.name: job for job in jobs}.values())
    options = options_of(jobs)
    out, dry_run = Path(options["out"]), options["dry_run"]
    pool = WorkerPool(out / "worker.log", cards_of(cards), not dry_run, LEAVING_LIMIT_S)
    done: list[Row] = []
    try:
        pool.start(jobs)
        points = [point for point in make_plan(jobs, pool).points if not point.round]
        if any(point.device != "cuda" for point in points):
            raise UserError("profiling needs a CUDA device, and there is none here")
        for number, point in enumerate(points):
            name = f"point {number} {point}".replace("×", "x")  # profilers print ASCII only
            if dry_run:
                print(name)
                continue
            worker = pool.worker_of(point.job, point.card)
            outcome = outcome_of(point, worker, range=name)
            row = row_of(point, outcome, worker, out.name)
            about = {"kernel": point.job.label, "environment": row.environment | {"range": name}}
            done.append(row.model_copy(update=about))
            print(": ".join(filter(None, [name, row.status, row.reason])), flush=True)
    finally:
        pool.close()
        if done:
            write_records(out / LIST, done)
    if not all(row.expected for row in done):
        raise SweepFailed


if __name__ == "__main__":
    sys.argv.append("hydra/launcher=profile")
    main()
