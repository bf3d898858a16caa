"""A sweep: check everything, measure point by point, record each at once, mirror, tell."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from experiments.checks import check_cards, shared_options
from experiments.client import Worker
from experiments.errors import SweepFailed
from experiments.estimate import print_estimate
from experiments.folder import note_session, save_plan
from experiments.jobs import Job
from experiments.ledger import Ledger
from experiments.planning import Crew, Plan, plan
from experiments.points import Point
from experiments.progress import Progress
from experiments.recording import measure, row_of, unsupported
from experiments.reporting import mirror_jobs, print_summary
from experiments.rows import Row


@dataclass(frozen=True)
class Sweep:
    """One run of the command over one folder."""

    out: Path
    options: dict[str, Any]
    ledger: Ledger

    @property
    def name(self) -> str:
        """The folder's name, as rows and trackers spell the sweep."""
        return self.out.resolve().name

    def wanted(self, points: Iterable[Point]) -> list[Point]:
        """Those of the points that are to be measured now."""
        if self.options["overwrite"]:
            return list(points)
        if self.options["only_failed"]:
            return [p for p in points if self._failed(p)]
        return [p for p in points if not self.ledger.is_done(p.identity)]

    def _failed(self, point: Point) -> bool:
        row = self.ledger.latest(point.identity)
        return row is not None and not row.expected

    def record(self, point: Point, outcome: dict[str, Any], environment: dict[str, Any]) -> Row:
        """Makes a point's outcome a row and puts it on disk."""
        row = row_of(
            point,
            outcome,
            sweep=self.name,
            attempt=self.ledger.next_attempt(point.identity),
            environment=environment,
        )
        self.ledger.record(self.out / point.job.name, row)
        return row


def run(
    jobs: Sequence[Job], compose: Callable[[list[str]], Job], cards: Sequence[int], began: float
) -> None:
    """Runs a sweep to its end.

    Args:
        jobs: All jobs, as composed.
        compose: Makes a job of overrides, for the roof that a shard may lack.
        cards: Indices of the cards to use.
        began: When the command started, by the performance counter.

    Raises:
        UserError: something asked for cannot be done; nothing was measured.
        SweepFailed: a point has no row of expected status at the end.
    """
    options = shared_options([job.config for job in jobs])
    check_cards(cards)
    out = Path(options["out"])
    ledger = Ledger(out)
    crew = Crew(log=out / "worker.log")
    try:
        planned = plan(jobs, compose, crew, cards)
        sweep = Sweep(out, options, ledger)
        if options["dry_run"]:
            print_estimate(sweep.wanted(planned.asked))
            return
        save_plan(planned, out)
        planned_s = time.perf_counter() - began
        requested = sweep.wanted(planned.asked) if options["only_failed"] else planned.asked
        measured = _measure_all(sweep, planned)
    finally:
        crew.dismiss()
        ledger.close()
    elapsed_s = time.perf_counter() - began
    note_session(out, len(measured), planned_s, elapsed_s)
    warnings = mirror_jobs(planned, sweep.name, ledger, out, options["tracker"], bool(measured))
    print_summary(planned, ledger, measured, out, elapsed_s, warnings)
    if not all(ledger.is_done(p.identity) for p in requested):
        raise SweepFailed


def _measure_all(sweep: Sweep, planned: Plan) -> list[Row]:
    lanes: dict[int, list[tuple[Worker, Point]]] = {}  # never two timings on one card at a time
    for worker, points in planned.shards:
        lanes.setdefault(worker.card, []).extend((worker, p) for p in sweep.wanted(points))
    total = sum(map(len, lanes.values()))
    stopping, rows = threading.Event(), []
    with Progress(total, done_before=len(planned.asked) - total) as progress:

        def lane(points: list[tuple[Worker, Point]]) -> None:
            for worker, point in points:
                if stopping.is_set():
                    return
                progress.begins(point)
                outcome = unsupported(point) or measure(point, worker)
                if stopping.is_set():
                    return  # the worker was ended under the point, which says nothing of it
                row = sweep.record(point, outcome, worker.hello["environment"])
                rows.append(row)
                progress.ends(point, row)

        with ThreadPoolExecutor(max_workers=max(len(lanes), 1)) as pool:
            futures = [pool.submit(lane, points) for points in lanes.values()]
            try:
                for future in futures:
                    future.result()
            except BaseException:
                stopping.set()
                for worker, _ in planned.shards:  # its end wakes the lane that waits for it
                    worker.stop()
                raise
    return rows
