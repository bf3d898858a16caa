"""A sweep: check everything, measure point by point, record each at once, mirror, summarize."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from experiments.data.jobs import TrackerConfig
from experiments.data.metrics import plausible
from experiments.data.rows import Row
from experiments.errors import SweepFailed, UserError
from experiments.sweep.cards import WorkerPool, cards_of
from experiments.sweep.guards import suspicions
from experiments.sweep.jobs import Job, options_of
from experiments.sweep.plan import Plan, Point, make_plan
from experiments.sweep.record import (
    Ledger,
    locked_folder,
    note_session,
    row_of,
    save_plan,
    sweep_name,
)
from experiments.sweep.schedule import Schedule, assign, measure_all
from experiments.sweep.summary import account, print_estimate, print_summary
from experiments.wandb import check_tracker, mirror


@dataclass
class Sweep:
    """One run of the command over one folder.

    Attributes:
        options: Those that all its jobs share.
        ledger: Its rows.
        marks: By card, the mark of the card that is there now.
        name: As rows have it; empty in a dry run.
    """

    options: dict[str, Any]
    ledger: Ledger
    marks: dict[int, str | None]
    name: str = ""

    def due(self, points: Iterable[Point]) -> list[Point]:
        """The points that must be measured now.

        With a point goes its roof, if it has a row of another card than there is now.
        """
        points = list(points)
        due = {p.identity for p in points if self._is_due(p)}
        beside = {(p.job.neighbours, p.place, p.round) for p in points if p.identity in due}

        def elsewhere(point: Point) -> bool:
            row = self.ledger.latest(point.identity)
            here = self.marks.get(point.card)
            return row is not None and row.environment.get("mark", here) != here

        return [
            p
            for p in points
            if p.identity in due
            or (
                p.variant["operation"] == p.variant["roof"]
                and (p.job.neighbours, p.place, p.round) in beside
                and elsewhere(p)
            )
        ]

    def _is_due(self, point: Point) -> bool:
        if self.options["overwrite"]:
            return True
        if self.options["only_failed"]:
            row = self.ledger.latest(point.identity)
            return row is not None and not row.expected
        return not self.ledger.is_done(point.identity) or self.again(point)

    def again(self, point: Point) -> bool:
        """Whether a point that has a row is to be measured once more, because it is suspect."""
        return bool(self.options["remeasure"]) and self.ledger.is_due_again(point.identity)

    def record(self, point: Point, outcome: dict[str, Any], handshake: dict[str, Any]) -> Row:
        """Makes a point's outcome a row and puts it on disk."""
        highest = self.ledger.highest_mhz(point.gpu, handshake["environment"].get("mark"))
        outcome = outcome | {"suspect": suspicions(outcome, highest)}
        attempt = self.ledger.next_attempt(point.identity)
        row = row_of(point, outcome, sweep=self.name, attempt=attempt, handshake=handshake)
        self.ledger.record(point.job.name, row)
        return row


def run(jobs: Iterable[Job], cards: Any = (0,)) -> None:
    """Runs a sweep to its end.

    Args:
        jobs: All jobs, the roofs' among them, which may be composed one by one as they are taken.
        cards: Indices of the cards to use, or ``all``.

    Raises:
        UserError: something asked for cannot be done; nothing was measured.
        SweepFailed: a point has no row of expected status at the end.
    """
    began = time.perf_counter()
    jobs = iter(jobs)
    composed = [next(jobs)]
    out, dry_run = Path(composed[0].config["out"]), composed[0].config["dry_run"]
    if (out / "slurm").exists():  # its jobs may be running
        raise UserError(f"out={out} is a sweep's on Slurm (LAUNCHER=slurm); choose another")
    pool = WorkerPool(out / "worker.log", cards_of(cards), not dry_run, measures=not dry_run)
    with locked_folder(out) as lock, contextlib.closing(pool):
        pool.start(composed)  # composing takes as long as workers take to start
        for job in jobs:
            composed.append(job)
            pool.start([job])
        options = options_of(composed)
        check_tracker(TrackerConfig(**options["tracker"]))
        ledger = Ledger(out, lock)
        plan = make_plan(composed, pool)
        workers = pool.interchangeable() if any(shard.free for shard in plan.shards) else {}
        assign(plan.shards, workers, ledger, options["overwrite"])
        here = {shard.card: shard.worker for shard in plan.shards if shard.worker} | workers
        marks = {c: w.handshake["environment"].get("mark") for c, w in here.items() if w.handshake}
        sweep = Sweep(options, ledger, marks)
        due = sweep.due(plan.asked)
        if dry_run:
            print_estimate(due, max(len(workers), 1))
            return
        sweep.name = sweep_name(out)
        save_plan(plan, out)
        schedule = Schedule(plan, workers, sweep)
        rows, spent, warnings = _measured(sweep, plan, schedule, pool, out, began)
    labels = {key: job.label for job in plan.jobs for key, *_ in plan.points[job.name]}
    print_summary(rows, labels, out, spent, warnings)
    some = {(point.key, point.round) for point in due}
    requested = [p for p in plan.asked if not options["only_failed"] or (p.key, p.round) in some]
    done = {row.identity for row in rows if row.expected}
    if not all(point.identity in done for point in requested):
        raise SweepFailed


def _measured(
    sweep: Sweep, plan: Plan, schedule: Schedule, pool: WorkerPool, out: Path, began: float
) -> tuple[list[Row], str, list[str]]:
    """Measures and mirrors; gives the last row of each point, the time's account, and warnings."""
    ledger, measured = sweep.ledger, list[Row]()
    planned_s = time.perf_counter() - began
    try:
        done_before = sum(ledger.is_done(point.identity) for point in plan.asked)
        measure_all(schedule, sweep, sweep.options["fresh"], measured, done_before)
        pool.close()
        ledger.check()
        points = plan.points
        found = [(job, ledger.rows_of(points[job.name])) for job in plan.jobs]
        warnings = mirror(sweep.name, found, TrackerConfig(**sweep.options["tracker"]), out)
    except UserError as error:  # status 2 is for a sweep that has measured nothing
        print(f"error: {error}", file=sys.stderr)
        raise SweepFailed(str(error)) from None
    finally:
        elapsed_s = time.perf_counter() - began
        note_session(out, len(measured), planned_s, elapsed_s)
    rows = ledger.rows_of(point.identity for point in plan.asked)
    return plausible(rows), account(measured, elapsed_s), warnings
