"""Which card measures which shard, and when: a thread for each card, one queue of shards."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any, Protocol

from experiments.data.rows import Row
from experiments.sweep.client import Worker, WorkerError
from experiments.sweep.plan import Plan, Point, Shard
from experiments.sweep.record import Ledger, measure
from experiments.sweep.summary import Progress


def assign(
    shards: Sequence[Shard], workers: Mapping[int, Worker], ledger: Ledger, overwrite: bool
) -> None:
    """Assigns each free shard to the card that has rows of it; the others stay free.

    A shard that is done on whatever card stays there, and nothing of it is measured again. One that
    was begun goes on where it began: its ratios are between neighbours on one card. Only where that
    card is not at hand any more is all of it measured on another.
    """
    for shard in (s for s in shards if s.free):
        begun = ledger.cards_of(shard.jobs)
        at_hand = [card for card in begun if card in workers]
        points = [point for visit in shard.visits for point in visit]
        done = [
            card
            for card in (*at_hand, *begun)
            if not overwrite and all(ledger.is_done((p.key, card, p.round)) for p in points)
        ]
        if cards := [*done, *at_hand]:
            shard.settle(cards[0], workers.get(cards[0]))
            continue
        if begun and not overwrite:
            print(
                f"{shard.name} was begun on card {begun[0]}, which is not among this sweep's "
                "cards; all of it is measured on another",
                file=sys.stderr,
            )
        if len(workers) == 1:
            shard.settle(*next(iter(workers.items())))


class Sweep(Protocol):
    """What a schedule asks of the sweep that it measures."""

    def due(self, points: Iterable[Point]) -> list[Point]:
        """The points that must be measured now."""

    def again(self, point: Point) -> bool:
        """Whether a point that now has a row is to be measured once more."""

    def record(self, point: Point, outcome: dict[str, Any], handshake: dict[str, Any]) -> Row:
        """Puts a point's outcome, with the worker's handshake, on disk as a row."""


class Schedule:
    """Gives the points of a plan to its cards, one visit to a shard at a time; thread-safe.

    A free shard goes to the card that is free first, the longest first, and stays on it.
    """

    def __init__(self, plan: Plan, workers: Mapping[int, Worker], sweep: Sweep) -> None:
        """Of a plan whose shards are assigned; ``workers`` may take the free ones, by card."""
        self._workers, self._sweep = workers, sweep
        self._lock = threading.Lock()
        self._taken: set[tuple[str, int, int]] = set()
        self.left = [[shard for shard in order if shard.worker] for order in plan.rounds]
        free = [shard for shard in plan.shards if shard.free]
        own = {shard.card for shard in plan.shards if shard.worker and not shard.free}
        self.cards = sorted(own | {*(workers if free else ())})
        self.total = len({p.identity for p in sweep.due(plan.asked)})

    def next(self, card: int, round_: int) -> tuple[Worker, list[Point]] | None:
        """A card's next visit in a round: its own shards first, then the longest free one."""
        with self._lock:
            left = self.left[round_]
            shard = next((s for s in left if s.card == card and not s.free), None)
            free = [s for s in left if s.free]
            if shard is None and free and card in self._workers:
                shard = max(free, key=lambda one: one.estimate_s)
                shard.settle(card, self._workers[card])
            if shard is None:
                return None
            left.remove(shard)
            due = self._sweep.due(shard.visits[round_])
            points = [p for p in due if p.identity not in self._taken]
            self._taken.update(p.identity for p in points)  # another shard may ask for them too
            assert shard.worker is not None
            return shard.worker, points


def measure_all(
    schedule: Schedule, sweep: Sweep, fresh: bool, rows: list[Row], done_before: int
) -> None:
    """Measures all points of a schedule on every card at once, each recorded before the next.

    Args:
        schedule: The points, for each card and round.
        sweep: Records them.
        fresh: Whether each round begins in new worker processes.
        rows: Takes the rows as they are made; an interrupted sweep still has them.
        done_before: How many points have rows already.

    Raises:
        UserError: a row could not be written.
    """
    stopping = threading.Event()
    used: dict[int, set[Worker]] = {card: set() for card in schedule.cards}

    def lane(card: int) -> None:
        """One thread a card: never two timings on one at a time."""
        for round_ in range(len(schedule.left)):
            for worker in used[card] if fresh else ():
                worker.stop()
            while (taken := schedule.next(card, round_)) is not None:
                worker, points = taken
                used[card].add(worker)
                for point in points:
                    if stopping.is_set() or not visit(worker, point):
                        return

    def visit(worker: Worker, point: Point) -> bool:
        """Measures a point, and says whether the card's thread can go on."""
        progress.begins(point)
        worker, lost = worker.of_kernel(point.job.config["kernel"]), None
        try:
            outcome = measure(point, worker)
        except WorkerError as error:
            lost = f"no worker could be started: {error}"
            outcome = {"status": "crashed", "reason": lost}
        if stopping.is_set():
            return False  # the worker was ended under the point, which says nothing of it
        row = sweep.record(point, outcome, worker.handshake)
        rows.append(row)
        if row.status == "crashed":
            worker.stop()  # one that gave a senseless answer would fail at other kernels too
        if lost is None and sweep.again(point):
            progress.repeats(point, row)
            return visit(worker, point)
        progress.ends(point, row)
        return lost is None  # nor could one be started for the next point

    with (
        Progress(schedule.total, done_before) as progress,
        ThreadPoolExecutor(max_workers=max(len(schedule.cards), 1)) as pool,
    ):
        futures = [pool.submit(lane, card) for card in schedule.cards]
        try:
            for future in futures:
                future.result()
        except BaseException:
            stopping.set()
            while wait(futures, timeout=0.1).not_done:  # a lane may just have started another
                for workers in used.values():
                    for worker in [*workers]:
                        worker.kill()
            raise
