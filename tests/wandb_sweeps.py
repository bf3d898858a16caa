"""A whole sweep on disk and in W&B, for the tests of reading it back."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from experiments.data.metrics import derive
from experiments.data.rows import Row
from experiments.mirror import MirroredJob, mirror
from experiments.sweep.config import Tracker
from tests.analysis.plausible import write

ROOT = Path(__file__).parents[1]
ADDRESS = "wandb:somebody/softmax-roofline"
TIMING = {"timer": "events", "cache": "cold", "min_samples": 100, "max_samples": 500}


def sweep(out: Path, rows: Iterable[Row]) -> list[MirroredJob]:
    """Rows filed by kernel as a sweep files them, with declarations and configurations."""
    by_kernel: dict[str, list[Row]] = {}
    for row in rows:
        by_kernel.setdefault(row.kernel, []).append(row)
    read = json.loads((ROOT / "outputs/reference/h200/variants.json").read_text())
    declared = {label: told for label, told in read.items() if told["kernel"] in by_kernel}
    out.mkdir(parents=True, exist_ok=True)
    (out / "variants.json").write_text(json.dumps(declared))
    jobs = []
    for kernel, found in by_kernel.items():
        name = f"tutorial/native-auto/{kernel}"
        folder = write(out / name, found)
        tracker = {"backend": "wandb", "project": "softmax-roofline", "entity": None}
        config: dict[str, Any] = {"timing": TIMING, "tracker": tracker, "out": out.name}
        (folder / "config.json").write_text(json.dumps(config))
        jobs.append(MirroredJob(f"id-{kernel}", name, "paper", kernel, config, folder, False))
    return jobs


def mirrored_sweep(out: Path, rows: list[Row], mode: str = "online") -> list[str]:
    """A sweep on disk and in W&B; gives the mirror's warnings."""
    jobs = sweep(out, rows)
    derived = derive(rows)
    of = {job.id: [row for row in derived if row["kernel"] == job.kernel] for job in jobs}
    return mirror(jobs, of, Tracker(mode=mode), out)
