"""What lies in a sweep's folder beside its rows."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
from pathlib import Path
from typing import Any

from experiments.sweep.jobs import Job
from experiments.sweep.planning import Plan


def sweep_name(out: Path) -> str:
    """The sweep's name, given once to a folder and kept when it moves.

    It ends in a random token: two folders of one name are two sweeps, in rows and for a tracker.
    """
    path = out / "sweep.json"
    known = read_json(path)
    if "sweep" not in known:
        known = {"sweep": f"{out.resolve().name}-{secrets.token_hex(3)}"}
        write_json(path, known)
    return str(known["sweep"])


def save_plan(planned: Plan, out: Path) -> None:
    """Writes what each variant declares, and each job's configuration, beside the rows."""
    path = out / "variants.json"
    variants = read_json(path)
    for job in planned.jobs:
        variants[job.label] = {"kernel": job.kernel, **declared(planned, job)}
    save_configurations(planned, out)
    write_json(path, variants)


def save_request(request: str, out: Path) -> None:
    """Writes ``.hydra/multirun.yaml``, what the latest command asked for; it holds the folder."""
    path = out / ".hydra" / "multirun.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(request, encoding="utf-8")


def declared(planned: Plan, job: Job) -> dict[str, Any]:
    """What a job's variant declares beside its points."""
    return {k: v for k, v in planned.variants[job.name].items() if k != "points"}


def save_configurations(planned: Plan, out: Path) -> None:
    """Writes each job's configuration beside its rows."""
    for job in planned.jobs:
        # where the folder lies is this machine's own affair
        write_json(out / job.name / "config.json", job.config | {"out": out.name})


def note_session(out: Path, points: int, planned_s: float, elapsed_s: float) -> None:
    """Keeps how long this run of the command took, for the account of the wall time."""
    if not points:
        return
    session = {"points": points, "planning_s": planned_s, "elapsed_s": elapsed_s}
    # on a full disk this account is no loss, and its failure would hide what was one
    with contextlib.suppress(OSError), (out / "sessions.jsonl").open("a") as file:
        file.write(json.dumps(session) + "\n")


def read_json(path: Path) -> dict[str, Any]:
    """A file's object; empty where there is no file or a crash cut it short."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def write_json(path: Path, value: dict[str, Any]) -> None:
    """Writes a file as a whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    scratch = path.with_suffix(".tmp")
    scratch.write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    os.replace(scratch, path)
