"""A sweep: check everything, measure point by point, record each at once, mirror, tell."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from experiments.data.rows import Row
from experiments.errors import SweepFailed, UserError
from experiments.sweep.checks import check_size, shared_options
from experiments.sweep.crew import Crew
from experiments.sweep.dealing import Deal
from experiments.sweep.estimate import print_estimate
from experiments.sweep.folder import note_session, save_plan, save_request, sweep_name
from experiments.sweep.guards import suspicions
from experiments.sweep.jobs import Job
from experiments.sweep.ledger import Ledger
from experiments.sweep.measuring import Visits, measure_all
from experiments.sweep.planning import plan
from experiments.sweep.points import Point
from experiments.sweep.recording import row_of
from experiments.sweep.reporting import mirror_jobs, print_summary
from experiments.sweep.table import account
from experiments.sweep.visible import cards_of


@dataclass(frozen=True)
class Sweep:
    """One run of the command over one folder."""

    out: Path
    name: str
    options: dict[str, Any]
    ledger: Ledger

    def wanted(self, points: Iterable[Point]) -> list[Point]:
        """Those of the points that are to be measured now."""
        if self.options["overwrite"]:
            return list(points)
        if self.options["only_failed"]:
            return [p for p in points if self._failed(p)]
        return [p for p in points if not self.ledger.is_done(p.identity) or self.again(p)]

    def again(self, point: Point) -> bool:
        """Whether a point that has a row is to be measured once more, because it is suspect."""
        return bool(self.options["remeasure"]) and self.ledger.is_due_again(point.identity)

    def _failed(self, point: Point) -> bool:
        row = self.ledger.latest(point.identity)
        return row is not None and not row.expected

    def record(self, point: Point, outcome: dict[str, Any], environment: dict[str, Any]) -> Row:
        """Makes a point's outcome a row and puts it on disk."""
        highest = self.ledger.highest_mhz(point.gpu, point.card)
        row = row_of(
            point,
            outcome | {"suspect": suspicions(outcome, highest)},
            sweep=self.name,
            attempt=self.ledger.next_attempt(point.identity),
            environment=environment,
        )
        self.ledger.record(self.out / point.job.name, row)
        return row


def run(
    jobs: Sequence[Job],
    compose: Callable[[list[str]], Job],
    cards: Any,
    began: float,
    request: str = "",
) -> None:
    """Runs a sweep to its end.

    Args:
        jobs: All jobs, as composed.
        compose: Makes a job of overrides, for the roof that a shard may lack.
        cards: Indices of the cards to use, or ``all``.
        began: When the command started, by the performance counter.
        request: The command's configuration, YAML, kept beside the rows.

    Raises:
        UserError: something asked for cannot be done; nothing was measured.
        SweepFailed: a point has no row of expected status at the end.
    """
    options = shared_options([job.config for job in jobs])
    cards = cards_of(cards)
    check_size(sum(len(job.shapes) * len(job.dtypes) for job in jobs), options["rounds"])
    out = Path(options["out"])
    if (out / "slurm").exists():  # it numbers cards in its own way, and its jobs may be running
        raise UserError(f"out={out} is a sweep's on Slurm (LAUNCHER=slurm); choose another")
    ledger = Ledger(out)
    crew = Crew(log=out / "worker.log", locked=not options["dry_run"])
    measured: list[Row] = []
    planned_s = 0.0
    try:
        planned = plan(jobs, compose, crew, cards, ledger)
        sweep = Sweep(out, sweep_name(out), options, ledger)
        todo = sweep.wanted(planned.asked)
        if options["dry_run"]:
            print_estimate(todo)
            return
        asked = {(point.key, point.round) for point in todo}
        save_request(request, out)
        save_plan(planned, out)
        planned_s = time.perf_counter() - began
        done_before = sum(ledger.is_done(p.identity) for p in planned.asked)
        try:
            visits = Visits(sweep.record, sweep.again, options["fresh"])
            deal = Deal(planned.rounds, planned.posts, sweep.wanted)
            measure_all(deal, visits, measured, done_before)
        except UserError as error:  # status 2 is for a sweep that has measured nothing
            print(f"error: {error}", file=sys.stderr)
            raise SweepFailed from None
        crew.dismiss()
        tracker = options["tracker"]
        warnings = mirror_jobs(planned, sweep.name, ledger, out, tracker, bool(measured))
    finally:
        crew.dismiss()
        ledger.close()
        elapsed_s = time.perf_counter() - began
        note_session(out, len(measured), planned_s, elapsed_s)
    print_summary(planned, ledger, out, account(measured, elapsed_s), warnings)
    some = options["only_failed"]
    requested = [p for p in planned.asked if not some or (p.key, p.round) in asked]
    if not all(ledger.is_done(p.identity) for p in requested):
        raise SweepFailed
