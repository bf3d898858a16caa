"""A sweep: check everything, measure point by point, record each at once, mirror, summarize."""

from __future__ import annotations

import contextlib
import itertools
import os
import sys
import threading
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

from experiments.data.jobs import TrackerConfig
from experiments.data.metrics import plausible
from experiments.data.rows import Row
from experiments.errors import SweepFailed, UserError
from experiments.sweep.cards import WorkerPool, cards_of
from experiments.sweep.client import Worker, WorkerError
from experiments.sweep.guards import suspicions
from experiments.sweep.jobs import Job, options_of
from experiments.sweep.plan import Plan, Point, Shard, make_plan
from experiments.sweep.record import (
    FolderLock,
    Ledger,
    measure,
    note_session,
    row_of,
    save_plan,
    sweep_name,
)
from experiments.sweep.summary import Progress, account, print_estimate, print_summary
from experiments.wandb import check_tracker, mirror


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
    first = next(jobs)
    out, dry_run = Path(first.config["out"]), first.config["dry_run"]
    if (out / "slurm").exists():  # its jobs may be running
        raise UserError(f"out={out} is a sweep's on Slurm (LAUNCHER=slurm); choose another")
    log = Path(os.devnull) if dry_run else out / "worker.log"
    pool = WorkerPool(log, cards_of(cards), not dry_run, measures=not dry_run)
    with contextlib.ExitStack() as stack:
        lock = None if dry_run else stack.enter_context(contextlib.closing(FolderLock(out)))
        stack.callback(pool.close)
        pool.start([first])  # composing takes as long as workers take to start
        composed = [first, *jobs]
        pool.start(composed)
        options = options_of(composed)
        check_tracker(TrackerConfig(**options["tracker"]))
        sweep = Sweep(make_plan(composed, pool), pool, Ledger(out, lock), options)
        due = sweep.due(sweep.plan.asked)
        if dry_run:
            print_estimate(due, max(len(sweep.workers), 1))
            return
        rows, warnings = _measured(sweep, out, began)
    labels = {key: job.label for job in composed for key, *_ in sweep.plan.points[job.name]}
    spent = account(sweep.measured, time.perf_counter() - began)
    print_summary(rows, labels, out, spent, warnings)
    done = {row.identity for row in rows if row.expected}
    some = {(point.key, point.round) for point in due}
    asked = (p for p in sweep.plan.asked if not options["only_failed"] or (p.key, p.round) in some)
    if not all(point.identity in done for point in asked):
        raise SweepFailed


def _measured(sweep: Sweep, out: Path, began: float) -> tuple[list[Row], list[str]]:
    """Measures and mirrors; gives the last row of each point, and warnings."""
    ledger, plan = sweep.ledger, sweep.plan
    sweep.name = sweep_name(out)
    save_plan(plan, out)
    planned_s = time.perf_counter() - began
    try:
        sweep.measure()
        sweep.pool.close()
        ledger.check()
        points = plan.points
        found = [(job, ledger.rows_of(points[job.name])) for job in plan.jobs]
        warnings = mirror(sweep.name, found, TrackerConfig(**sweep.options["tracker"]), out)
    except UserError as error:  # status 2 is for a sweep that has measured nothing
        print(f"error: {error}", file=sys.stderr)
        raise SweepFailed(str(error)) from None
    finally:
        note_session(out, len(sweep.measured), planned_s, time.perf_counter() - began)
    return plausible(ledger.rows_of(point.identity for point in plan.asked)), warnings


class Sweep:
    """Which card measures which point, and when: a thread for each card, one queue of shards.

    A free shard goes to the card that is free first, the longest first, and stays on it.
    """

    def __init__(
        self, plan: Plan, pool: WorkerPool, ledger: Ledger, options: dict[str, Any]
    ) -> None:
        """Of a plan: assigns the shards that have rows to their cards."""
        self.plan, self.pool, self.ledger, self.options = plan, pool, ledger, options
        self.name, self.measured = "", list[Row]()
        free = any(shard.free for shard in plan.shards)
        self.workers = pool.interchangeable() if free else {}
        for shard in plan.shards:
            if shard.free:
                self._assign(shard)
        here = {shard.card: shard.worker for shard in plan.shards if shard.worker} | self.workers
        self._marks = {c: w.handshake.get("environment", {}).get("mark") for c, w in here.items()}
        self._cards = sorted(here)
        self._left = [[shard for shard in order if shard.worker] for order in plan.rounds]
        self._taken: set[tuple[str, int, int]] = set()
        self._lock, self._stopping = threading.Lock(), threading.Event()
        self._used: dict[int, set[Worker]] = {card: set() for card in self._cards}

    def _assign(self, shard: Shard) -> None:
        """Assigns a free shard to the card that has rows of it, if that is at hand.

        A shard that is done on whatever card stays there, and nothing of it is measured again. One
        that was begun goes on where it began: its ratios are between neighbours on one card. Only
        where that card is not at hand any more is all of it measured on another.
        """
        begun = self.ledger.cards_of(shard.jobs)
        at_hand = [card for card in begun if card in self.workers]
        points = {(point.key, point.round) for visit in shard.visits for point in visit}
        done = [
            card
            for card in (*at_hand, *begun)
            if all(self.ledger.is_done((key, card, round_)) for key, round_ in points)
        ]
        again = self.options["overwrite"]
        if cards := [*(() if again else done), *at_hand]:
            shard.settle(cards[0], self.workers.get(cards[0]))
        elif begun and not again:
            print(
                f"{shard.name} was begun on card {begun[0]}, which is not among this sweep's "
                "cards; all of it is measured on another",
                file=sys.stderr,
            )
        if shard.free and len(self.workers) == 1:
            shard.settle(*next(iter(self.workers.items())))

    def due(self, points: Iterable[Point]) -> list[Point]:
        """The points that must be measured now.

        With a point goes its roof, if it has a row of another card than there is now.
        """
        points = list(points)
        due = {p.identity for p in points if self._is_due(p)}
        beside = {(p.job.neighbours, p.place, p.round) for p in points if p.identity in due}

        def roof_elsewhere(point: Point) -> bool:
            row, here = self.ledger.latest(point.identity), self._marks.get(point.card)
            mine = (point.job.neighbours, point.place, point.round)
            is_roof = point.variant["operation"] == point.variant["roof"] and mine in beside
            return is_roof and row is not None and row.environment.get("mark", here) != here

        return [p for p in points if p.identity in due or roof_elsewhere(p)]

    def _is_due(self, point: Point) -> bool:
        if self.options["overwrite"]:
            return True
        if self.options["only_failed"]:
            row = self.ledger.latest(point.identity)
            return row is not None and not row.expected
        return not self.ledger.is_done(point.identity) or self._again(point)

    def _again(self, point: Point) -> bool:
        """Whether a point that has a row is to be measured once more, because it is suspect."""
        return bool(self.options["remeasure"]) and self.ledger.is_due_again(point.identity)

    def measure(self) -> None:
        """Measures all points on every card at once, each recorded before the next.

        Raises:
            UserError: a row could not be written.
        """
        total = len({point.identity for point in self.due(self.plan.asked)})
        before = sum(self.ledger.is_done(point.identity) for point in self.plan.asked)
        with (
            Progress(total, before) as progress,
            ThreadPoolExecutor(max_workers=max(len(self._cards), 1)) as pool,
        ):
            futures = [pool.submit(self._lane, card, progress) for card in self._cards]
            try:
                for future in futures:
                    future.result()
            except BaseException:
                self._stopping.set()
                while wait(futures, timeout=0.1).not_done:  # a lane may just have started another
                    for worker in itertools.chain.from_iterable(map(list, self._used.values())):
                        worker.kill()
                raise

    def _lane(self, card: int, progress: Progress) -> None:
        """One thread a card: never two timings on one at a time."""
        for round_ in range(len(self._left)):
            for worker in self._used[card] if self.options["fresh"] else ():
                worker.stop()
            while (taken := self._next(card, round_)) is not None:
                worker, points = taken
                self._used[card].add(worker)
                for point in points:
                    if self._stopping.is_set() or not self._visit(worker, point, progress):
                        return

    def _next(self, card: int, round_: int) -> tuple[Worker, Sequence[Point]] | None:
        """A card's next visit in a round: its own shards first, then the longest free one."""
        with self._lock:
            left = self._left[round_]
            shard = next((s for s in left if s.card == card and not s.free), None)
            free = [s for s in left if s.free]
            if shard is None and free and card in self.workers:
                shard = max(free, key=lambda one: one.estimate_s)
                shard.settle(card, self.workers[card])
            if shard is None or shard.worker is None:
                return None
            left.remove(shard)
            points = [p for p in self.due(shard.visits[round_]) if p.identity not in self._taken]
            self._taken.update(p.identity for p in points)  # another shard may ask for them too
            return shard.worker, points

    def _visit(self, worker: Worker, point: Point, progress: Progress) -> bool:
        """Measures a point, and says whether the card's thread can go on."""
        progress.begins(point)
        worker, lost = worker.of_kernel(point.job.config["kernel"]), None
        try:
            outcome = measure(point, worker)
        except WorkerError as error:
            lost = f"no worker could be started: {error}"
            outcome = {"status": "crashed", "reason": lost}
        if self._stopping.is_set():
            return False  # the worker was ended under the point, which says nothing of it
        row = self._record(point, outcome, worker.handshake)
        if row.status == "crashed":
            worker.stop()  # one that gave a senseless answer would fail at other kernels too
        if lost is None and self._again(point):
            progress.repeats(point, row)
            return self._visit(worker, point, progress)
        progress.ends(point, row)
        return lost is None  # nor could one be started for the next point

    def _record(self, point: Point, outcome: dict[str, Any], handshake: dict[str, Any]) -> Row:
        """Makes a point's outcome a row and puts it on disk."""
        highest = self.ledger.highest_mhz(point.gpu, handshake["environment"].get("mark"))
        outcome = outcome | {"suspect": suspicions(outcome, highest)}
        attempt = self.ledger.next_attempt(point.identity)
        row = row_of(point, outcome, sweep=self.name, attempt=attempt, handshake=handshake)
        self.ledger.record(point.job.name, row)
        self.measured.append(row)
        return row
