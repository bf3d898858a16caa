"""A shard's job, on its node: the sweep's own way through the points of one shard."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from experiments.data.rows import Row
from experiments.errors import UserError
from experiments.slurm.card import ShardCrew, ShardLedger, number_card, with_roofs
from experiments.slurm.records import ASKED, END, PLAN, read, shard_folder, write
from experiments.slurm.shards import Shard
from experiments.sweep.checks import shared_options
from experiments.sweep.dealing import Deal
from experiments.sweep.driver import Sweep
from experiments.sweep.folder import declared, save_configurations
from experiments.sweep.measuring import Visits, measure_all
from experiments.sweep.planning import Plan, plan
from experiments.sweep.points import Point


@dataclass(frozen=True)
class Errand:
    """What a Slurm job is sent with.

    Attributes:
        shard: What to measure.
        out: The sweep's folder, an absolute path on the shared file system.
        sweep: The sweep's name.
        request: Digest of what was asked.
        token: Names this submission of the shard; a later one takes the shard from it.
        needs_card: Whether Slurm was asked for a card, so that a CPU is no substitute.
    """

    shard: Shard
    out: str
    sweep: str
    request: str
    token: str
    needs_card: bool


def measure_shard(errand: Errand) -> None:
    """Measures what is missing of a shard and says in ``end.json`` how it ended."""
    # submitit would measure on after scancel, until it is killed, and ask to be started again
    signal.signal(signal.SIGTERM, _leave)
    signal.signal(signal.SIGUSR2, _leave)
    began = time.perf_counter()
    measured: list[Row] = []
    status, why = 1, None
    try:
        status = 0 if _measure(errand, measured) else 1
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        why = str(error)
    if _is_ours(errand):
        elapsed_s = time.perf_counter() - began
        said = {"status": status, "error": why, "points": len(measured), "elapsed_s": elapsed_s}
        write(Path(errand.out), errand.shard.id, END, {"token": errand.token, **said})
    if status:
        sys.exit(status)


def _measure(errand: Errand, measured: list[Row]) -> bool:
    shard, out = errand.shard, Path(errand.out)
    options = shared_options([job.config for job in shard.jobs])
    ledger = ShardLedger(out, shard.rows_files(out))
    crew = ShardCrew(shard_folder(out, shard.id) / "worker.log", needs_card=errand.needs_card)
    try:
        planned = plan(shard.jobs, shard.roof, crew, [0])
        number_card(planned, out, errand.sweep)
        sweep = Sweep(out, errand.sweep, options, ledger)
        own = [p for p in planned.asked if (p.job.name, *p.place) not in shard.elsewhere]
        todo = with_roofs(sweep.wanted(own), own, ledger)
        save_configurations(planned, out)
        write(out, shard.id, PLAN, _told(planned, own, errand))

        def record(point: Point, outcome: dict[str, Any], environment: dict[str, Any]) -> Row:
            if not _is_ours(errand):
                raise UserError("this shard was submitted again; the later job goes on with it")
            return sweep.record(point, outcome, environment)

        visits = Visits(record, sweep.again, options["fresh"])
        chosen = {point.identity for point in todo}
        deal = Deal(
            planned.rounds, planned.posts, lambda some: [p for p in some if p.identity in chosen]
        )
        done_before = sum(ledger.is_done(p.identity) for p in own)
        measure_all(deal, visits, measured, done_before)
        requested = todo if options["only_failed"] else own
        return all(ledger.is_done(p.identity) for p in requested)
    finally:
        crew.dismiss()


def _told(planned: Plan, own: Iterable[Point], errand: Errand) -> dict[str, Any]:
    """The plan as the submitting side is to know it."""
    return {
        "request": errand.request,
        "variants": {job.name: declared(planned, job) for job in planned.jobs},
        "points": {n: [[key, r] for key, _, r in ids] for n, ids in planned.points.items()},
        "own": [[point.key, point.round] for point in own],
    }


def _is_ours(errand: Errand) -> bool:
    """Whether nobody submitted the shard again: a node that was lost from sight may go on."""
    try:
        asked = read(Path(errand.out), errand.shard.id, ASKED)
    except OSError:  # a shared file system, while the file is replaced
        return True
    return bool(asked.get("token", errand.token) == errand.token)


def _leave(number: int, frame: FrameType | None) -> None:
    if number == signal.SIGUSR2:
        raise UserError(
            "its time was up (hydra.launcher.time), or others went first; the same command goes on"
        )
    raise SystemExit(128 + number)
