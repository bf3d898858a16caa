"""A sweep: check everything, measure point by point, record each at once, mirror, summarize."""

from __future__ import annotations

import contextlib
import itertools
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from experiments.data.jobs import TrackerConfig
from experiments.data.rows import Row
from experiments.errors import SweepFailed, UserError
from experiments.sweep.cards import WorkerPool, cards_of
from experiments.sweep.client import Worker
from experiments.sweep.config import shared_options
from experiments.sweep.guards import suspicions
from experiments.sweep.jobs import Compose, Job, check_size
from experiments.sweep.plan import Plan, Point, check_device, make_plan
from experiments.sweep.record import (
    FolderLock,
    Ledger,
    note_session,
    row_of,
    save_plan,
    sweep_name,
)
from experiments.sweep.schedule import Schedule, assign, measure_all
from experiments.sweep.summary import account, print_estimate, print_summary, rows_of
from experiments.wandb import mirror


@dataclass(frozen=True)
class Place:
    """Where a sweep runs that is a scheduler's job, on the card that it got.

    Attributes:
        number: Numbers the card as rows name it. A point is done whatever card measured it, since
            the next job may get another card.
        on_card: Whether the sweep must run on a card, so that a CPU cannot stand in.
        planned: Called with all points once they are known.
    """

    number: Callable[[Worker], int]
    on_card: bool
    planned: Callable[[Sequence[Point]], None]


@dataclass(frozen=True)
class Sweep:
    """One run of the command over one folder."""

    name: str
    options: dict[str, Any]
    ledger: Ledger

    def due(self, points: Iterable[Point]) -> list[Point]:
        """Those of the points that are to be measured now."""
        points = list(points)
        due = {p.identity: p for p in points if self._is_due(p)}
        neighbours = {(p.job.neighbours, p.place, p.round) for p in due.values()}

        def lacks_roof(point: Point) -> bool:
            """Whether points beside it are due, and it was measured on another card than theirs."""
            row = self.ledger.latest(point.identity)
            return (
                point.variant["operation"] == point.variant["roof"]
                and row is not None
                and row.card != point.card
                and (point.job.neighbours, point.place, point.round) in neighbours
            )

        return [p for p in points if p.identity in due or lacks_roof(p)]

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
        highest = self.ledger.highest_mhz(point.gpu, point.card)
        outcome = outcome | {"suspect": suspicions(outcome, highest)}
        attempt = self.ledger.next_attempt(point.identity)
        row = row_of(point, outcome, sweep=self.name, attempt=attempt, handshake=handshake)
        self.ledger.record(point.job.name, row)
        return row


def run(
    jobs: Iterable[Job],
    compose: Compose | None,
    cards: Any = (0,),
    began: float | None = None,
    request: str = "",
    place: Place | None = None,
) -> None:
    """Runs a sweep to its end.

    Args:
        jobs: All jobs, which may be composed one by one as they are taken.
        compose: Makes a job of overrides, for the roof that a shard may lack; None adds none.
        cards: Indices of the cards to use, or ``all``.
        began: When the command started, by the performance counter.
        request: The command's configuration, YAML, kept beside the rows.
        place: The scheduler's job that it runs in; None on a host of one's own.

    Raises:
        UserError: something asked for cannot be done; nothing was measured.
        SweepFailed: a point has no row of expected status at the end.
    """
    began = time.perf_counter() if began is None else began
    cards = cards_of(cards)
    jobs = iter(jobs)
    first = next(jobs)
    out, dry_run = Path(first.config["out"]), first.config["dry_run"]
    if (out / "slurm").exists():  # its jobs may be running
        raise UserError(f"out={out} is a sweep's on Slurm (LAUNCHER=slurm); choose another")
    measured: list[Row] = []
    with contextlib.ExitStack() as held:
        held.callback(_tidy_above, [p for p in out.parents if not p.exists()])
        lock = held.enter_context(contextlib.closing(FolderLock(out)))
        held.callback(_tidy, out)
        required = place is not None and place.on_card
        log, measures = out / "worker.log", not dry_run
        nothing_before = not log.exists()
        pool = WorkerPool(log, cards, measures, measures=measures, required=required)
        held.callback(pool.close)
        composed = _gather(itertools.chain([first], jobs), pool)
        options = shared_options([job.config for job in composed])
        check_size(composed)
        ledger = Ledger(out, lock, any_card=place is not None)
        plan = make_plan(composed, compose, pool)
        workers = _assign(plan, pool, ledger, options["overwrite"], place)
        sweep = Sweep("" if dry_run else sweep_name(out), options, ledger)
        due = sweep.due(plan.asked)
        if dry_run:
            print_estimate(due)
            if nothing_before:
                log.unlink(missing_ok=True)
            return
        asked = {(point.key, point.round) for point in due}
        save_plan(plan, out, request)
        if place is not None:
            place.planned(plan.asked)
        done_before = sum(ledger.is_done(point.identity) for point in plan.asked)
        planned_s = time.perf_counter() - began
        try:
            schedule = Schedule(plan, workers, sweep.due)
            measure_all(
                schedule, sweep.record, sweep.again, options["fresh"], measured, done_before
            )
            pool.close()
            ledger.check()
            points = plan.points
            found = [
                (job, [row for one in points[job.name] if (row := ledger.latest(one))])
                for job in plan.jobs
            ]
            warnings = mirror(sweep.name, found, TrackerConfig(**options["tracker"]), out)
        except UserError as error:  # status 2 is for a sweep that has measured nothing
            print(f"error: {error}", file=sys.stderr)
            raise SweepFailed(str(error)) from None
        finally:
            elapsed_s = time.perf_counter() - began
            note_session(out, len(measured), planned_s, elapsed_s)
    labels = {key: job.label for job in plan.jobs for key, *_ in plan.points[job.name]}
    print_summary(rows_of(plan, ledger), labels, out, account(measured, elapsed_s), warnings)
    some = options["only_failed"]
    requested = [p for p in plan.asked if not some or (p.key, p.round) in asked]
    if not all(ledger.is_done(point.identity) for point in requested):
        raise SweepFailed


def _tidy(out: Path) -> None:
    """Removes a log in which nothing was written, and a folder in which nothing else was.

    The folder is locked: another sweep may be planning in one that is empty.
    """
    log = out / "worker.log"
    with contextlib.suppress(OSError):
        if log.is_file() and not log.is_symlink() and log.stat().st_size == 0:
            log.unlink()
        out.rmdir()


def _tidy_above(folders: Iterable[Path]) -> None:
    """Removes the folders that were made for ``out``, each locked, as long as they are empty."""
    with contextlib.suppress(OSError, UserError):
        for folder in folders:
            with contextlib.closing(FolderLock(folder)):
                folder.rmdir()


def _gather(jobs: Iterable[Job], pool: WorkerPool) -> list[Job]:
    """The jobs as they are composed, which takes as long as workers take to start: both at once.

    Raises:
        UserError: one cannot run on its device; the others are not waited for.
    """
    found = []
    for job in jobs:
        found.append(job)
        worker = pool.start([job], wait=False)(job)
        if worker.answers:
            check_device(job, worker)
    return found


def _assign(
    plan: Plan, pool: WorkerPool, ledger: Ledger, overwrite: bool, place: Place | None
) -> dict[int, Worker]:
    """Assigns shards to cards, and gives the workers that the free ones may go to, by card."""
    if place is not None:
        for shard in plan.shards:
            assert shard.worker is not None
            shard.move(place.number(shard.worker), shard.worker)
            shard.free = False
    if not any(shard.free for shard in plan.shards):
        return {}
    workers = pool.interchangeable()
    assign(plan.shards, workers, ledger, overwrite)
    return workers
