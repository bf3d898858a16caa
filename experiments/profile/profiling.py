"""From points to profiled calls, and the list that says which range was which point."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from experiments.data.records import Record, write_records
from experiments.errors import SweepFailed, UserError
from experiments.sweep.cards import WorkerPool, cards_of
from experiments.sweep.client import LEAVING_LIMIT_S, Worker, WorkerDied
from experiments.sweep.config import shared_options
from experiments.sweep.jobs import Compose, Job
from experiments.sweep.plan import Plan, Point, make_plan
from experiments.sweep.record import packages_of

LIST = "profiled.jsonl"
POINT_LIMIT_S = 600.0  # a profiler may replay a kernel, and keep its memory in between


class Profiled(Record):
    """One point and what became of its two calls."""

    range: str = Field(description="name of the profiler range around its second call")
    status: Literal["profiled", "unsupported", "failed"]
    reason: str | None = None
    gpu: str
    model_reads: int | None
    model_writes: int | None
    environment: dict[str, Any]


def profile(
    jobs: Sequence[Job], compose: Compose, cards: Any = (0,), only: str | None = None
) -> None:
    """Calls every supported point of the jobs once inside a profiler range.

    Args:
        jobs: All jobs, as composed; no roof is added to them.
        compose: Makes a job of overrides.
        cards: The launcher's; jobs that pin no card run on the first.
        only: The label of the jobs whose points are called, None for all.

    Raises:
        UserError: something asked for cannot be done, or there is no CUDA device.
        SweepFailed: a point failed.
    """
    labels = sorted({job.label for job in jobs})
    if only not in (None, *labels):
        raise UserError(f"hydra.launcher.only={only} is none of {', '.join(labels)}")
    jobs = [job for job in jobs if only in (None, job.label)]
    options = shared_options([job.config for job in jobs])
    out = Path(options["out"])
    log, locked = out / "worker.log", not options["dry_run"]
    pool = WorkerPool(log, cards_of(cards), locked, LEAVING_LIMIT_S)
    done: list[Profiled] = []
    try:
        points = asked(make_plan(jobs, compose, pool), jobs)
        if any(point.device != "cuda" for _, point in points):
            raise UserError("profiling needs a CUDA device, and there is none here")
        for number, (worker, point) in enumerate(points):
            name = f"point {number} {point}".replace("×", "x")  # profilers print ASCII only
            if options["dry_run"]:
                print(name)
                continue
            done.append(_visit(worker, point, name))
            why = f": {done[-1].reason}" if done[-1].reason else ""
            print(f"{name}: {done[-1].status}{why}", flush=True)
    finally:
        pool.close()
        if done:
            write_records(out / LIST, done)
    if any(record.status == "failed" for record in done):
        raise SweepFailed


def asked(planned: Plan, jobs: Sequence[Job]) -> list[tuple[Worker, Point]]:
    """Each point that the jobs ask for, once: no added roof, no further rounds."""
    names = {job.name for job in jobs}
    found = {
        point.identity: (shard.worker, point)
        for shard in planned.rounds[0]
        for point in shard.visits[0]
        if point.job.name in names and shard.worker
    }
    return list(found.values())


def _visit(worker: Worker, point: Point, name: str) -> Profiled:
    outcome = point.refusal or _request(worker, point, name)
    status = outcome["status"]
    shown = ("rows", "cols", "dtype", "model_reads", "model_writes")
    return Profiled(
        range=name,
        status=status if status == "unsupported" else "profiled" if status == "ok" else "failed",
        reason=outcome["reason"],
        kernel=point.job.label,
        operation=point.variant["operation"],
        params=point.variant["params"],
        source=point.variant["source"],
        gpu=point.gpu,
        environment=worker.handshake["environment"] | packages_of(point),
        **{key: point.declared[key] for key in shown},
    )


def _request(worker: Worker, point: Point, name: str) -> dict[str, Any]:
    request = {
        "kernel": point.job.config["kernel"],
        "seed": point.job.config["seed"],
        "range": name,
        **{key: point.declared[key] for key in ("rows", "cols", "dtype")},
    }
    try:
        outcome = worker.request(
            {"do": "profile", "point": request}, {"profiling": POINT_LIMIT_S}, "profiling"
        )
    except WorkerDied as error:
        return {"status": error.status, "reason": str(error)}
    if outcome.get("sticky"):
        worker.stop()  # its CUDA context is lost, and every later point would fail with it
    return outcome
