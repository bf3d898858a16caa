"""Measuring a plan's points: a lane a card, each point recorded before the next begins."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from experiments.client import Worker
from experiments.points import Point
from experiments.process import WorkerError
from experiments.progress import Progress
from experiments.recording import measure, unsupported
from experiments.rows import Row

Record = Callable[[Point, dict[str, Any], dict[str, Any]], Row]


def measure_all(
    todo: Sequence[tuple[Worker, Point]], record: Record, rows: list[Row], done_before: int
) -> None:
    """Measures points in order, on every card at once.

    Args:
        todo: Each point with the worker that takes it.
        record: Puts a point's outcome, with the worker's environment, on disk as a row.
        rows: Takes the rows as they come, so that an interrupted sweep still has them.
        done_before: Points that need no measuring, for the display.

    Raises:
        UserError: a row could not be written.
    """
    lanes: dict[int, list[tuple[Worker, Point]]] = {}  # never two timings on one card at a time
    for worker, point in todo:
        lanes.setdefault(worker.card, []).append((worker, point))
    stopping = threading.Event()
    with Progress(len(todo), done_before) as progress:

        def lane(points: list[tuple[Worker, Point]]) -> None:
            for worker, point in points:
                if stopping.is_set():
                    return
                progress.begins(point)
                environment = worker.hello["environment"]
                lost = None
                try:
                    outcome = unsupported(point) or measure(point, worker)
                except WorkerError as error:
                    lost = f"no worker could be started: {error}"
                    outcome = {"status": "crashed", "reason": lost}
                if stopping.is_set():
                    return  # the worker was ended under the point, which says nothing of it
                row = record(point, outcome, environment)
                rows.append(row)
                progress.ends(point, row)
                if lost is not None:
                    return  # nor could one for the lane's next point

        with ThreadPoolExecutor(max_workers=max(len(lanes), 1)) as pool:
            futures = [pool.submit(lane, points) for points in lanes.values()]
            try:
                for future in futures:
                    future.result()
            except BaseException:
                stopping.set()
                for worker, _ in todo:  # its end wakes the lane that waits for it
                    worker.retire()
                raise
