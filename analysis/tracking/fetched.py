"""Rows read back from a W&B project: each run's rows artifact, kept on disk below ``outputs``."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from analysis.format import visible
from analysis.tracking.address import Address, address
from analysis.tracking.place import drop, folder_of, keep, known, place_of
from experiments.data.rows import RowsError
from experiments.mirror.child import READER, talk

LONGEST = 200
MORE_SILENCE_S = 40.0  # a file of rows takes a while on a slow line


def fetch(text: str, outputs: Path) -> tuple[Path, list[str]]:
    """Brings the copy of a project's rows up to date; what has not changed is not fetched again.

    The copy lies in ``outputs/wandb/<entity>/<project>/<group>``, as the sweep's folder did.
    Nothing of it changes before all has arrived.

    Args:
        text: ``wandb:entity/project``, or ``wandb:entity/project/group`` for one sweep of it.
        outputs: The folder that holds all sweeps.

    Returns:
        The folder to read rows from, and a line for each run that was passed over.

    Raises:
        RowsError: in one line, why there are no rows to be had.
    """
    asked = address(text)
    base = outputs / "wandb" / asked.entity / asked.project
    with tempfile.TemporaryDirectory() as scratch:
        jobs, warnings = _ask(asked, base, Path(scratch))
        if not jobs:
            told = "; ".join(warnings) or "no sweep was mirrored there"
            raise RowsError(f"{asked}: no run has rows: {told}")
        _arrange(jobs, base, base / folder_of(asked.group) if asked.group else base)
    return (base / folder_of(asked.group) if asked.group else base), warnings


def _ask(asked: Address, base: Path, scratch: Path) -> tuple[list[dict[str, Any]], list[str]]:
    """What the server has: a message for each run with rows, a line for each without."""
    plan = {
        "entity": asked.entity,
        "project": asked.project,
        "group": asked.group,
        "known": {id: copy.digest for id, copy in known(base).items()},
        "folder": str(scratch / "rows"),
    }
    jobs, warnings = [], []
    for message in talk(json.dumps(plan), scratch, READER, MORE_SILENCE_S):
        match message:
            case {"event": "job"}:
                jobs.append(message)
            case {"event": "skipped", "name": name, "id": id, "reason": reason}:
                run = f"W&B run {name or id} ({id}) is passed over: {reason}"
                warnings.append(visible(run, LONGEST))
            case {"event": "error", "reason": reason}:
                raise RowsError(f"{asked}: {_why(visible(reason, LONGEST))}")
    return jobs, warnings


def _arrange(jobs: list[dict[str, Any]], base: Path, scope: Path) -> None:
    """Puts what came where it belongs, and removes copies of runs that are no longer there."""
    copies = known(base)
    taken: list[Path] = []
    for job in jobs:
        place = place_of(job["id"], job["name"] or "", job["group"], taken)
        taken.append(place)
    with tempfile.TemporaryDirectory() as aside:
        sources = [_source(job, copies, Path(aside) / str(i)) for i, job in enumerate(jobs)]
        fetched = {job["id"] for job in jobs}
        for id, copy in copies.items():
            if id in fetched or copy.folder.is_relative_to(scope):
                drop(copy.folder)
        for job, place, source in zip(jobs, taken, sources, strict=True):
            keep(source, base / place, job["id"], job["digest"])


def _source(job: Mapping[str, Any], copies: Mapping[str, Any], aside: Path) -> Path:
    """Where a run's files are: just fetched, or set aside from where they were kept."""
    if job["folder"] is not None:
        return Path(job["folder"])
    copy = copies[job["id"]]
    keep(copy.folder, aside, job["id"], copy.digest)
    return aside


def _why(reason: str) -> str:
    if "No API key" in reason or "api_key not configured" in reason:
        return "no W&B key: set WANDB_API_KEY, or run `wandb login`"
    if "Could not find project" in reason:
        return "no such project, or the key may not read it"
    server = os.environ.get("WANDB_BASE_URL", "https://api.wandb.ai")
    return f"{server} did not give the rows: {reason}"
