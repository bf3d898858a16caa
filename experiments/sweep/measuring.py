"""Measuring a plan's points: a lane a card, each point recorded before the next begins."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from experiments.data.rows import Row
from experiments.sweep.client import Worker, WorkerError
from experiments.sweep.dealing import Deal
from experiments.sweep.points import Point
from experiments.sweep.progress import Progress
from experiments.sweep.recording import measure, unsupported


@dataclass(frozen=True)
class Visits:
    """How a point is visited.

    Attributes:
        record: Puts a point's outcome, with the worker's environment, on disk as a row.
        again: Whether a point that now has a row is to be measured once more.
        fresh: Whether each round begins in new worker processes.
    """

    record: Callable[[Point, dict[str, Any], dict[str, Any]], Row]
    again: Callable[[Point], bool]
    fresh: bool = False


def measure_all(deal: Deal, visits: Visits, rows: list[Row], done_before: int) -> None:
    """Measures all that is dealt, on every card at once.

    Args:
        deal: The points, for each card and round.
        visits: What to do at each.
        rows: Takes the rows as they come, so that an interrupted sweep still has them.
        done_before: Points that need no measuring, for the display.

    Raises:
        UserError: a row could not be written.
    """
    stopping = threading.Event()
    with Progress(deal.total, done_before) as progress:

        def visit(worker: Worker, point: Point) -> bool:
            """Measures a point, and says whether the lane can go on."""
            progress.begins(point)
            environment = worker.hello["environment"]
            lost = None
            try:
                outcome = unsupported(point) or measure(point, worker)
            except WorkerError as error:
                lost = f"no worker could be started: {error}"
                outcome = {"status": "crashed", "reason": lost}
            if stopping.is_set():
                return False  # the worker was ended under the point, which says nothing of it
            row = visits.record(point, outcome, environment)
            rows.append(row)
            if visits.again(point) and lost is None:
                progress.repeats(point, row)
                return visit(worker, point)
            progress.ends(point, row)
            return lost is None  # nor could one be started for the lane's next point

        def lane(card: int) -> None:
            """One thread a card: never two timings on one at a time."""
            used: set[Worker] = set()
            for round_ in range(deal.rounds):
                if visits.fresh:
                    for worker in used:
                        worker.stop()
                while (dealt := deal.next(card, round_)) is not None:
                    worker, points = dealt
                    progress.expects(deal.total)
                    for point in points:
                        used.add(worker)
                        if stopping.is_set() or not visit(worker, point):
                            return

        with ThreadPoolExecutor(max_workers=max(len(deal.cards), 1)) as pool:
            futures = [pool.submit(lane, card) for card in deal.cards]
            try:
                for future in futures:
                    future.result()
            except BaseException:
                stopping.set()
                for worker in deal.workers:  # its end wakes the lane that waits for it
                    worker.retire()
                raise
