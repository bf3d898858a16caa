"""What a sweep leaves at its end: tracker runs, the table, the account of the wall time."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from experiments.data.metrics import derive
from experiments.data.rows import Row
from experiments.sweep.config import Tracker
from experiments.sweep.jobs import Job
from experiments.sweep.ledger import Ledger
from experiments.sweep.points import Point
from experiments.sweep.table import result_table


class Planned(Protocol):
    """What was asked for: a sweep's plan, or the plans of its shards as one."""

    @property
    def jobs(self) -> Sequence[Job]:
        """All jobs, the roof's among them."""

    @property
    def points(self) -> Mapping[str, Sequence[tuple[str, int, int]]]:
        """By job name, the identities that it asked for."""

    @property
    def asked(self) -> Sequence[Point]:
        """Every point once."""


def mirror_jobs(
    planned: Planned, sweep: str, ledger: Ledger, out: Path, tracker: dict[str, Any], news: bool
) -> list[str]:
    """Mirrors every job's rows to the tracker and gives its warnings.

    Nothing of it runs while anything is measured. ``news`` tells whether rows were added.
    """
    if tracker["backend"] == "none":
        return []
    from experiments.wandb import MirroredJob, mirror

    derived = {(r["key"], r["card"], r["round"]): r for r in derive(_rows(planned, ledger))}
    jobs, rows = [], {}
    for job in planned.jobs:
        identities = planned.points[job.name]
        job_id = job.id(sweep)
        found = [ledger.latest(identity) for identity in identities]
        rows[job_id] = [derived[row.identity] for row in found if row is not None]
        jobs.append(
            MirroredJob(
                id=job_id,
                name=job.name,
                sweep=sweep,
                kernel=job.kernel,
                config=job.config,
                folder=out / job.name,
                failed=not all(row is not None and row.expected for row in found),
            )
        )
    return mirror(jobs, rows, Tracker(**tracker), out)


def print_summary(
    planned: Planned, ledger: Ledger, out: Path, spent: str, warnings: list[str]
) -> None:
    """Prints the table, where everything is, and the account of how the wall time was spent."""
    labels = {}
    for job in planned.jobs:
        labels.update(dict.fromkeys((i[0] for i in planned.points[job.name]), job.label))
    rows = derive(_rows(planned, ledger))
    result_table(rows, labels, out / "table.md")
    for warning in warnings:
        print(f"warning: {warning}", file=sys.stderr)
    print(spent)
    failed = [row for row in rows if row["status"] not in ("ok", "unsupported")]
    if failed:
        print(f"{len(failed)} points failed; only_failed=true tries them again")
    suspect = [row for row in rows if row["suspect"]]
    if suspect:
        kinds = Counter(kind for row in suspect for kind in kinds_of(row["suspect"]))
        why = ", ".join(f"{kind} {count}" for kind, count in sorted(kinds.items()))
        print(f"{len(suspect)} of {len(rows)} points are suspect ({why}); their rows say how")
    print(f"rows      {out}/**/rows.jsonl")
    print(f"table     {out / 'table.md'}")
    print(f"variants  {out / 'variants.json'}")


def kinds_of(suspicions: list[str]) -> set[str]:
    """The kinds of reasons to distrust a row: the first word of each, as in ``throttled``."""
    return {reason.partition(":")[0] for reason in suspicions}


def _rows(planned: Planned, ledger: Ledger) -> list[Row]:
    found = (ledger.latest(point.identity) for point in planned.asked)
    return [row for row in found if row is not None]
