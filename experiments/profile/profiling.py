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
from experiments.sweep.jobs import Job, options_of
from experiments.sweep.plan import Point, make_plan
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
            done.append(_visit(pool.place(point.job, point.card), point, name))
            why = f": {done[-1].reason}" if done[-1].reason else ""
            print(f"{name}: {done[-1].status}{why}", flush=True)
    finally:
        pool.close()
        if done:
            write_records(out / LIST, done)
    if any(record.status == "failed" for record in done):
        raise SweepFailed


def _visit(worker: Worker, point: Point, name: str) -> Profiled:
    """Has a point called twice, the second time in a range of this name."""
    shown = ("rows", "cols", "dtype", "model_reads", "model_writes")
    config, outcome = point.job.config, point.refusal
    request = {
        "kernel": config["kernel"],
        "seed": config["seed"],
        "range": name,
        **{key: point.declared[key] for key in shown[:3]},
    }
    if outcome is None:
        message, limits = {"do": "profile", "point": request}, {"profiling": POINT_LIMIT_S}
        try:
            outcome = worker.request(message, limits, "profiling")
        except WorkerDied as error:
            outcome = {"status": error.status, "reason": str(error)}
        if outcome.get("sticky"):
            worker.stop()  # its CUDA context is lost, and every later point would fail with it
    words: dict[str, Literal["profiled", "unsupported"]]
    words = {"ok": "profiled", "unsupported": "unsupported"}
    return Profiled(
        range=name,
        status=words.get(outcome["status"], "failed"),
        reason=outcome["reason"],
        kernel=point.job.label,
        operation=point.variant["operation"],
        params=point.variant["params"],
        source=point.variant["source"],
        gpu=point.gpu,
        environment=worker.handshake["environment"] | packages_of(point),
        **{key: point.declared[key] for key in shown},
    )
