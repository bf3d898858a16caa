"""What lies in a sweep's folder beside its rows."""

from __future__ import annotations

import json
from pathlib import Path

from experiments.planning import Plan


def save_plan(planned: Plan, out: Path) -> None:
    """Writes what each variant declares, and each job's configuration, beside the rows."""
    path = out / "variants.json"
    variants = json.loads(path.read_text()) if path.exists() else {}
    for job in planned.jobs:
        said = {k: v for k, v in planned.variants[job.name].items() if k != "points"}
        variants[job.label] = {"kernel": job.kernel, **said}
        folder = out / job.name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "config.json").write_text(json.dumps(job.config, indent=1) + "\n")
    path.write_text(json.dumps(variants, indent=1, ensure_ascii=False) + "\n")


def note_session(out: Path, points: int, planned_s: float, elapsed_s: float) -> None:
    """Keeps how long this run of the command took, for the account of the wall time."""
    if not points:
        return
    session = {"points": points, "planning_s": planned_s, "elapsed_s": elapsed_s}
    with (out / "sessions.jsonl").open("a") as file:
        file.write(json.dumps(session) + "\n")
