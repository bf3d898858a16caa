"""Rows on their way to Weights & Biases: one run a job, written after measuring has ended.

The rows are the truth and W&B is their mirror. It is written by a process of its own, so that the
parent never imports W&B, none of it is awake while a kernel is timed, and whatever goes wrong in it
ends as a warning within a bounded time. What has been written stands in ``wandb/mirrored.json``
below the sweep's folder: rows written once are not written again, and a sweep that measured nothing
new starts no W&B at all.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.mirror.content import MirroredJob, RunContent, content, lines_of
from experiments.mirror.marker import Marker
from experiments.mirror.record import Destination, record

if TYPE_CHECKING:  # analysis talks to W&B too, and knows no Hydra
    from experiments.sweep.config import Tracker

__all__ = ["MirroredJob", "mirror"]

MODES = ("offline", "online")
ROWS_STAY = "the rows are complete on disk"


def mirror(
    jobs: Sequence[MirroredJob],
    rows: Mapping[str, Sequence[Mapping[str, Any]]],
    tracker: Tracker,
    out: Path,
) -> list[str]:
    """Brings each job's W&B run up to date with its rows, at ``out/wandb``.

    Where the server of ``mode=online`` cannot be had, the runs are written offline instead.

    Args:
        jobs: What becomes a run each.
        rows: Job id to that job's rows with their derived columns, as ``derive`` makes them.
        tracker: The backend ``none`` does nothing.
        out: The sweep's folder.

    Returns:
        One line for each thing that went wrong. Nothing is ever raised.
    """
    if tracker.backend == "none" or not jobs:
        return []
    try:
        return _mirror(jobs, rows, tracker, out)
    except Exception as error:
        return [f"W&B was not written ({type(error).__name__}: {error}); {ROWS_STAY}"]


def _mirror(
    jobs: Sequence[MirroredJob],
    rows: Mapping[str, Sequence[Mapping[str, Any]]],
    tracker: Tracker,
    out: Path,
) -> list[str]:
    if tracker.mode not in MODES:
        return [f"tracker.mode={tracker.mode}: W&B is written in mode {' or '.join(MODES)}"]
    folder = out / "wandb"
    marker = Marker.read(folder)
    declared = _declared(out)
    found = [_due(job, rows.get(job.id, ()), marker, declared) for job in jobs]
    due = [run for run in found if run is not None]
    warnings = record(due, Destination(tracker.mode, tracker.project, tracker.entity), marker)
    return [f"{warning}; {ROWS_STAY}" for warning in warnings]


def _declared(out: Path) -> dict[str, Any]:
    """What the sweep's variants declare, by label; nothing where that was not written."""
    try:
        read = json.loads((out / "variants.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    told = read.items() if isinstance(read, dict) else ()
    return {label: declared for label, declared in told if isinstance(declared, dict)}


def _due(
    job: MirroredJob,
    rows: Sequence[Mapping[str, Any]],
    marker: Marker,
    declared: Mapping[str, Any],
) -> RunContent | None:
    """What is to be written of a job, None when W&B has it all."""
    known = marker.of(job.id).order
    lines = lines_of(rows)
    order = known + [name for name in lines if name not in set(known)]
    mine = {label: told for label, told in declared.items() if told.get("kernel") == job.kernel}
    run = content(job, rows, order, [lines.get(name) for name in order], mine)
    return None if run.digest == marker.of(job.id).digest else run
