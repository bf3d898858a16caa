"""Rows on their way to Weights & Biases: one run a job, written after measuring has ended.

The rows are the truth and W&B is their mirror. It is written by a process of its own, so that the
parent never imports W&B, none of it is awake while a kernel is timed, and whatever goes wrong in it
ends as a warning within a bounded time. What has been written stands in ``wandb/mirrored.json``
below the sweep's folder: rows written once are not written again, and a sweep that measured nothing
new starts no W&B at all.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from experiments.config import Tracker
from experiments.mirror.child import talk
from experiments.mirror.content import MirroredJob, RunContent, content, lines_of
from experiments.mirror.marker import Marker, Mirrored

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
    due = [run for job in jobs if (run := _due(job, rows.get(job.id, ()), marker)) is not None]
    if not due:
        return []
    # W&B would write to the system's temporary folder instead, without a word.
    marker.probe()
    if tracker.mode == "offline":
        return _write(due, tracker, "offline", marker)[1]
    left, warnings = _write(due, tracker, "online", marker)
    if not left:
        return warnings
    _, more = _write(left, tracker, "offline", marker)
    instead = "" if more else "; written offline instead, upload later with make sync"
    return [warning + instead for warning in warnings] + more


def _due(job: MirroredJob, rows: Sequence[Mapping[str, Any]], marker: Marker) -> RunContent | None:
    """What is to be written of a job, None when W&B has it all."""
    known = marker.of(job.id).order
    lines = lines_of(rows)
    order = known + [name for name in lines if name not in set(known)]
    run = content(job, rows, order, [lines.get(name) for name in order])
    return None if run.digest == marker.of(job.id).digest else run


def _write(
    runs: Sequence[RunContent], tracker: Tracker, mode: str, marker: Marker
) -> tuple[list[RunContent], list[str]]:
    """Writes runs, and gives those that are safe to be written otherwise, and the warnings."""
    if mode == "offline":
        for run in runs:
            marker.remove_unfinished(run.id)
    plan = {
        "mode": mode,
        "project": tracker.project,
        "entity": tracker.entity,
        "runs": [asdict(run) | {"logged": len(marker.of(run.id).order)} for run in runs],
    }
    left = {run.id: run for run in runs}
    for message in talk(json.dumps(plan), cwd=marker.folder.parent):
        match message:
            case {"event": "started", "id": id}:
                # Some of it may have arrived; only the server can say what, when it is back.
                started = left.pop(id)
            case {"event": "written", "folder": folder}:
                if mode == "offline":
                    marker.add(started.id, Mirrored(started.digest, started.order, [folder]))
                else:
                    marker.add(started.id, Mirrored(started.digest, started.order, []))
                    marker.settle(started.id)
                shutil.rmtree(marker.folder / folder / "logs", ignore_errors=True)
            case {"event": "error", "reason": reason}:
                return list(left.values()), [f"W&B {mode}: {reason}; {ROWS_STAY}"]
    return [], []
