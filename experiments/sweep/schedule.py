"""Which card measures which shard, and when: assignment, order, and a thread for each card."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from experiments.data.rows import Row
from experiments.sweep.client import Worker, WorkerError
from experiments.sweep.plan import Identity, Plan, Point, Shard
from experiments.sweep.record import Ledger, measure
from experiments.sweep.summary import Progress


def assign(
    shards: Sequence[Shard], workers: Mapping[int, Worker], ledger: Ledger, overwrite: bool
) -> None:
    """Assigns each free shard to the card that has rows of it, and guesses where the rest goes.

    A shard that is done on whatever card stays there, and nothing of it is measured again. One that
    was begun goes on where it began: its ratios are between neighbours on one card. Only where that
    card is not at hand any more is all of it measured on another.

    The others stay free. They are spread by estimate, longest first to the card with least to do,
    until a `Schedule` gives each to whichever card is free first.
    """
    for shard in (s for s in shards if s.free):
        begun = ledger.cards_of(shard.jobs)
        at_hand = [card for card in begun if card in workers]
        done = [card for card in [*at_hand, *begun]
                if all(ledger.is_done((p.key, card, p.round)) for p in shard.points)]  # fmt: skip
        cards = at_hand if overwrite else [*done, *at_hand]
        if cards:
            shard.move(cards[0], workers.get(cards[0]))
            shard.free = False
        elif begun and not overwrite:
            print(f"{shard.name} was begun on card {begun[0]}, which is not among this sweep's "
                  "cards; all of it is measured on another", file=sys.stderr)  # fmt: skip
    loads = dict.fromkeys(workers, 0.0)
    for shard in (s for s in shards if not s.free and s.card in loads):
        due = (p for p in shard.points if overwrite or not ledger.is_done(p.identity))
        loads[shard.card] += sum(point.estimate_s for point in due)
    for shard in _longest_first(s for s in shards if s.free):
        card = min(loads, key=lambda card: loads[card])
        shard.move(card, workers[card])
        shard.free = len(workers) > 1
        loads[card] += shard.estimate_s


def _longest_first(shards: Iterable[Shard]) -> list[Shard]:
    """By estimate: what is short comes last and evens out when the cards finish."""
    return sorted(shards, key=lambda shard: -shard.estimate_s)


class Schedule:
    """Gives the points of a plan to its cards, one visit to a shard at a time; thread-safe.

    Attributes:
        total: How many points there are to measure, where they are expected to be.
        cards: The cards that may have something to do.
        rounds: How many rounds there are.
        workers: All that may be given a point.
    """

    def __init__(
        self,
        plan: Plan,
        workers: Mapping[int, Worker],
        due: Callable[[Iterable[Point]], list[Point]],
    ) -> None:
        """Of a plan whose shards are assigned; ``workers`` may take the free ones, by card."""
        self._workers, self._due = workers, due
        self._threads = threading.Lock()
        self._taken: set[Identity] = set()
        rounds = plan.rounds
        self._left = [
            [s for s in order if s.worker and not s.free]
            + _longest_first(s for s in order if s.free)
            for order in rounds
        ]
        visits = (s.visits[i] for i, order in enumerate(self._left) for s in order)
        self.total = len({point.identity for visit in visits for point in due(visit)})
        self.rounds = len(rounds)
        first = self._left[0]
        self.workers = {*workers.values(), *(s.worker for s in first if s.worker)}
        self.cards = sorted(
            {s.card for s in first} | {*(workers if any(s.free for s in first) else ())}
        )

    def next(self, card: int, round_: int) -> tuple[Worker, list[Point]] | None:
        """A card's next visit in a round: its own shards first, then the longest free one."""
        with self._threads:
            left = self._left[round_]
            own = (s for s in left if s.card == card and not s.free)
            free = (s for s in left if s.free and card in self._workers)
            shard = next(own, None) or next(free, None)
            if shard is None:
                return None
            left.remove(shard)
            if shard.free:
                shard.move(card, self._workers[card])
                shard.free = False
            due = self._due(shard.visits[round_])
            points = [p for p in due if p.identity not in self._taken]
            self._taken.update(p.identity for p in points)  # another shard may ask for them too
            assert shard.worker is not None
            return shard.worker, points


def measure_all(
    schedule: Schedule,
    record: Callable[[Point, dict[str, Any], dict[str, Any]], Row],
    again: Callable[[Point], bool],
    fresh: bool,
    rows: list[Row],
    done_before: int,
) -> None:
    """Measures all points of a schedule on every card at once, each recorded before the next.

    Args:
        schedule: The points, for each card and round.
        record: Puts a point's outcome, with the worker's handshake, on disk as a row.
        again: Whether a point that now has a row is to be measured once more.
        fresh: Whether each round begins in new worker processes.
        rows: Takes the rows as they come, so that an interrupted sweep still has them.
        done_before: How many points have rows already.

    Raises:
        UserError: a row could not be written.
    """
    stopping = threading.Event()
    with Progress(schedule.total, done_before) as progress:

        def visit(worker: Worker, point: Point) -> bool:
            """Measures a point, and says whether the card's thread can go on."""
            progress.begins(point)
            worker = worker.of_kernel(point.job.config["kernel"])
            handshake = worker.handshake
            lost = None
            try:
                outcome = measure(point, worker)
            except WorkerError as error:
                lost = f"no worker could be started: {error}"
                outcome = {"status": "crashed", "reason": lost}
            if stopping.is_set():
                return False  # the worker was ended under the point, which says nothing of it
            row = record(point, outcome, handshake)
            rows.append(row)
            if row.status == "crashed":
                worker.stop()  # one that gave a senseless answer would fail at other kernels too
            if again(point) and lost is None:
                progress.repeats(point, row)
                return visit(worker, point)
            progress.ends(point, row)
            return lost is None  # nor could one be started for the next point

        def lane(card: int) -> None:
            """One thread a card: never two timings on one at a time."""
            used: set[Worker] = set()
            for round_ in range(schedule.rounds):
                if fresh:
                    for worker in used:
                        worker.stop()
                while (taken := schedule.next(card, round_)) is not None:
                    worker, points = taken
                    used.add(worker)
                    for point in points:
                        if stopping.is_set() or not visit(worker, point):
                            return

        with ThreadPoolExecutor(max_workers=max(len(schedule.cards), 1)) as pool:
            futures = [pool.submit(lane, card) for card in schedule.cards]
            try:
                for future in futures:
                    future.result()
            except BaseException:
                stopping.set()
                for worker in schedule.workers:  # its end wakes the thread that waits for it
                    worker.retire()
                raise
