"""``python -m experiments.profile kernel=online grid=vocab``: points in ranges for any profiler.

It takes the arguments of ``experiments.run`` and makes, for each point, one warm call, a flush of
L2, and one call inside an NVTX range named after the point, the profiler started and stopped around
it.
``ncu --nvtx --profile-from-start off`` and ``nsys profile --capture-range=cudaProfilerApi
--capture-range-end=none`` see those calls and nothing else. ``profiled.jsonl`` below ``out`` says
which range is which point.
"""

from __future__ import annotations

import runpy
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from experiments.data.records import Record, write_records
from experiments.data.rows import EXPECTED
from experiments.errors import SweepFailed, UserError
from experiments.sweep.cards import WorkerPool, cards_of
from experiments.sweep.client import LEAVING_LIMIT_S
from experiments.sweep.jobs import Job, options_of
from experiments.sweep.plan import make_plan
from experiments.sweep.record import measure, packages_of

LIST = "profiled.jsonl"


class Profiled(Record):
    """One point and what became of its two calls."""

    range: str = Field(description="name of the profiler range around its second call")
    status: Literal["ok", "unsupported", "failed"]
    reason: str | None = None
    gpu: str
    model_reads: int | None
    model_writes: int | None
    environment: dict[str, Any]


def profile(jobs: Sequence[Job], cards: Any = (0,)) -> None:
    """Calls every supported point of the jobs once inside a profiler range.

    Args:
        jobs: All jobs, as composed; no roof is among them unless it was asked for.
        cards: The launcher's; jobs that pin no card run on the first.

    Raises:
        UserError: something asked for cannot be done, or there is no CUDA device.
        SweepFailed: a point failed.
    """
    jobs = list({job.name: job for job in jobs}.values())
    options = options_of(jobs)
    out, dry_run = Path(options["out"]), options["dry_run"]
    pool = WorkerPool(out / "worker.log", cards_of(cards), not dry_run, LEAVING_LIMIT_S)
    done: list[Profiled] = []
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
            worker, declared = pool.place(point.job, point.card), point.declared
            outcome = measure(point, worker, name)
            expected, why = outcome["status"] in EXPECTED, outcome["reason"] or ""
            about = {key: point.variant[key] for key in ("operation", "params", "source")}
            sizes = ("rows", "cols", "dtype", "model_reads", "model_writes")
            record = Profiled(
                range=name,
                status=outcome["status"] if expected else "failed",
                reason=outcome["reason"],
                kernel=point.job.label,
                gpu=point.gpu,
                environment=worker.handshake["environment"] | packages_of(point),
                **about,
                **{key: declared[key] for key in sizes},
            )
            print(": ".join(filter(None, [name, record.status, why])), flush=True)
            done.append(record)
    finally:
        pool.close()
        if done:
            write_records(out / LIST, done)
    if any(record.status == "failed" for record in done):
        raise SweepFailed


if __name__ == "__main__":
    sys.argv.append("hydra/launcher=profile")
    # as a program, not as a module: Hydra looks for conf/ beside the program's own file
    runpy.run_module("experiments.run", run_name="__main__", alter_sys=True)
