"""Runs handed to W&B's process and noted once they are written."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from experiments.mirror.child import talk
from experiments.mirror.content import RunContent
from experiments.mirror.marker import Marker, Mirrored

FINISH_S = 10.0  # rows alone are quickly there


@dataclass(frozen=True)
class Destination:
    """Where runs go.

    Attributes:
        mode: ``offline`` or ``online``.
        project: The project's name.
        entity: Its owner; None is the key's own.
        finish_s: How long an upload may take after the last line of a run.
    """

    mode: str
    project: str
    entity: str | None
    finish_s: float = FINISH_S


def record(runs: Sequence[RunContent], to: Destination, marker: Marker) -> list[str]:
    """Writes runs; those that the server cannot be given are written offline instead.

    Returns:
        One line for each thing that went wrong.

    Raises:
        OSError: the marker's folder cannot be written.
    """
    if not runs:
        return []
    # W&B would write to the system's temporary folder instead, without a word.
    marker.probe()
    if to.mode == "offline":
        return _write(runs, to, "offline", marker)[1]
    left, warnings = _write(runs, to, "online", marker)
    if not left:
        return warnings
    _, more = _write(left, to, "offline", marker)
    instead = "" if more else "; written offline instead, upload later with make sync"
    return [warning + instead for warning in warnings] + more


def _write(
    runs: Sequence[RunContent], to: Destination, mode: str, marker: Marker
) -> tuple[list[RunContent], list[str]]:
    """Writes runs, and gives those that are safe to be written otherwise, and the warnings."""
    if mode == "offline":
        for run in runs:
            marker.remove_unfinished(run.id)
    plan = {
        "mode": mode,
        "project": to.project,
        "entity": to.entity,
        "finish_s": to.finish_s,
        "runs": [asdict(run) | {"logged": len(marker.of(run.id).order)} for run in runs],
    }
    left = {run.id: run for run in runs}
    for message in talk(json.dumps(plan), cwd=marker.folder.parent, more_s=to.finish_s - FINISH_S):
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
                return list(left.values()), [f"W&B {mode}: {reason}"]
    return [], []
