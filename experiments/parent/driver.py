"""Runs a sweep: checks it, measures and records each point, uploads to W&B, prints the table."""

import contextlib
import os
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Any

from experiments.data.errors import SweepFailed, UserError
from experiments.data.metrics import mark_implausible
from experiments.data.rows import Row
from experiments.parent.cards import WorkerPool, cards_of
from experiments.parent.client import WorkerError
from experiments.parent.jobs import Job, options_of
from experiments.parent.plan import Plan, Point, make_plan
from experiments.parent.record import Ledger, folder_lock, outcome_of, row_of, save_plan, sweep_name
from experiments.parent.summary import Progress, print_estimate, print_summary, time_spent
from experiments.wandb import mirror, tracker_of

group_of = attrgetter("round", "job.shard", "workload")  # a group's points run back to back


def run(jobs: Iterable[Job], cards: Any = (0,)) -> list[tuple[str, Row]]:
    """Runs a sweep to its end.

    Args:
        jobs: All jobs, the roofs' included; an iterator may compose them one by one.
        cards: Indices of the cards to use, or ``all``.

    Returns:
        For each requested point its job's label and its last row; nothing for a dry run.

    Raises:
        UserError: the request cannot be met; nothing was measured.
        SweepFailed: at the end some requested point has no row of expected status.
    """
    began = time.perf_counter()
    jobs = iter(jobs)
    first = next(jobs)
    out, dry_run = Path(first.config["out"]), first.config["dry_run"]
    if (out / "slurm").exists():  # its Slurm jobs may be running
        raise UserError(f"out={out} is a sweep's on Slurm (LAUNCHER=slurm); choose another")
    log = Path(os.devnull) if dry_run else out / "worker.log"
    pool = WorkerPool(log, cards_of(cards), not dry_run)
    with contextlib.ExitStack() as stack:
        if not dry_run:
            stack.enter_context(folder_lock(out))
        stack.callback(pool.close)
        pool.start([first])  # the workers start while the other jobs are composed
        composed = [first, *jobs]
        pool.start(composed)
        options = options_of(composed)
        tracker = tracker_of(options)
        ledger = Ledger(out, read_only=dry_run)
        plan = make_plan(composed, pool)
        sweep = Sweep(plan, pool, ledger, options)
        if dry_run:
            print_estimate(sweep.due)
            return []
        try:
            sweep.measure_due(sweep_name(out, sum(not x.needs_outside for x in plan.points)))
            pool.close()
            ledger.check_unchanged()
            by_job = [(job, ledger.rows_of(plan.asked[job.name])) for job in plan.jobs]
            warnings = mirror(sweep.name, by_job, tracker, out)
        except UserError as error:  # exit status 2 would say that nothing was measured
            print(f"error: {error}", file=sys.stderr)
            raise SweepFailed from None
    rows = mark_implausible(ledger.rows_of(point.identity for point in plan.points))
    labels = {point.key: point.job.label for point in reversed(plan.points)}
    spent = time_spent(sweep.measured, time.perf_counter() - began)
    print_summary(rows, labels, out, spent, warnings)
    found = [(labels[row.key], row) for row in rows]
    wanted = sweep.due if options["only_failed"] else plan.points
    if not {point.identity for point in wanted} <= {row.identity for row in rows if row.expected}:
        raise SweepFailed(found)
    return found


class Sweep:
    """Measures the points of a plan that are due, with one thread for each card."""

    def __init__(
        self, plan: Plan, pool: WorkerPool, ledger: Ledger, options: dict[str, Any]
    ) -> None:
        self.plan, self.pool, self.ledger, self.options = plan, pool, ledger, options
        self.name, self.measured, self._stopping = "", list[Row](), threading.Event()
        # with a point its whole group is measured again: ratios compare points close in time
        again = {group_of(x) for x in plan.points if self._is_due(x) and ledger.latest(x.identity)}
        due = [x for x in plan.points if self._is_due(x) or group_of(x) in again]
        # in each round new points go first: a card may be taken away before the round ends
        self.due = sorted(due, key=lambda x: (x.round, group_of(x) in again))

    def _is_due(self, point: Point) -> bool:
        """Whether the options and the point's last row ask for a measurement of it."""
        if self.options["overwrite"]:
            return True
        row = self.ledger.latest(point.identity)
        if self.options["only_failed"]:
            return row is not None and not row.expected
        return row is None or not row.expected or self._once_more(row)

    def _once_more(self, row: Row) -> bool:
        """Whether to repeat a suspect point. An even attempt is a repeat already, and is kept."""
        return bool(self.options["remeasure"] and row.suspect and row.attempt % 2)

    def measure_due(self, name: str) -> None:
        """Measures the due points as the sweep ``name``, on all cards at the same time."""
        self.name = name
        save_plan(self.plan, Path(self.options["out"]))
        by_card = defaultdict[int, list[Point]](list)
        for point in self.due:
            by_card[point.card].append(point)
        known = self.ledger.rows_of(point.identity for point in self.plan.points)
        done = sum(row.expected for row in known)
        with (
            Progress(len(self.due), done) as progress,
            ThreadPoolExecutor(max_workers=max(len(by_card), 1)) as threads,
        ):
            futures = [threads.submit(self._measure_card, x, progress) for x in by_card.values()]
            try:
                for future in futures:
                    future.result()
            except BaseException:
                self._stopping.set()
                while wait(futures, timeout=0.1).not_done:  # a thread may have started a new worker
                    for worker in [*self.pool.workers.values()]:
                        worker.kill()
                raise

    def _measure_card(self, points: Sequence[Point], progress: Progress) -> None:
        """Measures the points of one card one after another: no two timings overlap there."""
        for round_, in_round in groupby(points, key=lambda point: point.round):
            if self.options["fresh"] and round_ > points[0].round:
                for worker in {self.pool.worker_of(point.job, point.card) for point in points}:
                    worker.stop()
            for point in in_round:
                if point.needs_outside and not self._outside_is_right(point):
                    continue
                if self._stopping.is_set() or not self._visit(point, progress):
                    return

    def _outside_is_right(self, point: Point) -> bool:
        """Whether an outside kernel of the point's group has a right answer already."""
        group = group_of(point)
        beside = [x for x in self.plan.points if x.job.is_outside and group_of(x) == group]
        return any(row.status == "ok" for row in self.ledger.rows_of(x.identity for x in beside))

    def _visit(self, point: Point, progress: Progress) -> bool:
        """Measures a point and records its row; false if the card's thread must end."""
        progress.began(point)
        worker, no_worker = self.pool.worker_of(point.job, point.card), False
        try:
            outcome = outcome_of(point, worker, workers=self.pool.on_card(point.card))
        except WorkerError as error:
            no_worker = True
            outcome = {"status": "crashed", "reason": f"no worker could be started: {error}"}
        if self._stopping.is_set():
            return False  # `measure_due` killed the worker, so this is no outcome of the point
        row = row_of(point, outcome, worker, self.name, self.ledger)
        row = self.ledger.record(point.job.name, row)
        self.measured.append(row)
        if row.status == "crashed":
            worker.stop()  # if it still runs, it gave an invalid outcome: replace it
        if not no_worker and self._once_more(row):
            progress.note(f"{point}: {'; '.join(row.suspect)}; measured once more")
            return self._visit(point, progress)
        progress.ended(point, row)
        return not no_worker  # the next point could not start one either
