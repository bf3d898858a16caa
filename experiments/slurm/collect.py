"""What the shards left, made one: the variants, the tracker's runs, the table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from experiments.data.rows import Row
from experiments.slurm.records import ASKED, END, PLAN, read, write
from experiments.slurm.shards import Shard
from experiments.sweep.folder import note_session, read_json, write_json
from experiments.sweep.jobs import Job
from experiments.sweep.ledger import Ledger
from experiments.sweep.points import Point
from experiments.sweep.reporting import mirror_jobs, print_summary


def collect(shards: Sequence[Shard], sweep: str, tracker: dict[str, Any], out: Path) -> None:
    """Writes ``variants.json``, mirrors the rows and prints the table, once no shard is running.

    Raises:
        UserError: a row is malformed.
    """
    ledger = Ledger(out)
    try:
        planned = _plan(shards, ledger, out)
        if not planned.jobs:
            return
        spent = _account(shards, out)
        warnings = mirror_jobs(planned, sweep, ledger, out, tracker, True)
    finally:
        ledger.close()
    print_summary(planned, ledger, out, spent, warnings)


@dataclass(frozen=True)
class _Collected:
    """The shards' plans as one: what each job asked for, on the cards that measured it."""

    jobs: list[Job] = field(default_factory=list)
    variants: dict[str, dict[str, Any]] = field(default_factory=dict)
    points: dict[str, list[tuple[str, int, int]]] = field(default_factory=dict)
    asked: list[Point] = field(default_factory=list)


def _plan(shards: Sequence[Shard], ledger: Ledger, out: Path) -> _Collected:
    """The shards' own plans as one, each point on the card that measured it."""
    rows: dict[tuple[str, int], list[Row]] = {}
    for row in ledger.rows():
        rows.setdefault((row.key, row.round), []).append(row)
    planned = _Collected()
    variants = read_json(out / "variants.json")
    asked: dict[tuple[str, int, int], Point] = {}
    for shard in shards:
        told = read(out, shard.id, PLAN)
        for job in (*shard.jobs, *shard.roofs):
            if job.name not in told.get("variants", {}):
                continue
            config = read_json(out / job.name / "config.json")  # the node's: it knows its card
            job = replace(job, config=job.config | {"gpu": config.get("gpu", job.config["gpu"])})
            variant = told["variants"][job.name]
            planned.jobs.append(job)
            planned.variants[job.name] = variant
            variants[job.label] = {"kernel": job.kernel, **variant}
            mine = [i for k, r in told["points"][job.name] for i in _identities(k, r, rows)]
            planned.points[job.name] = mine
            asked |= {i: _point(job, i) for i in mine if i not in asked}
    planned.asked.extend(asked.values())
    write_json(out / "variants.json", variants)
    return planned


def _identities(
    key: str, round_: int, rows: dict[tuple[str, int], list[Row]]
) -> Iterable[tuple[str, int, int]]:
    """A point on each card that has a good row of it, else as it was tried last."""
    found = rows.get((key, round_), [])
    good = [row.identity for row in found if row.expected]
    last = [row.identity for row in sorted(found, key=lambda row: row.attempt)[-1:]]
    return good or last or [(key, 0, round_)]


def _point(job: Job, identity: tuple[str, int, int]) -> Point:
    key, card, round_ = identity
    return Point(job, key, card, round_, gpu="", device="", variant={}, declared={})


def _account(shards: Sequence[Shard], out: Path) -> str:
    """Notes each job that ended since the last time, and says in a line what they took."""
    points, spent_s, jobs = 0, 0.0, 0
    for shard in shards:
        asked, end = read(out, shard.id, ASKED), read(out, shard.id, END)
        if end.get("token") != asked.get("token") or asked.get("noted") or not end:
            continue
        note_session(out, end["points"], 0.0, end["elapsed_s"])
        write(out, shard.id, ASKED, asked | {"noted": True})
        points, spent_s, jobs = points + end["points"], spent_s + end["elapsed_s"], jobs + 1
    if not points:
        return "nothing was measured"
    return f"{points} points in {spent_s:.1f} s of {jobs} Slurm job{'s' if jobs > 1 else ''}"
