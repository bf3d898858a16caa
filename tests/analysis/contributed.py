"""A small sweep as someone might contribute it, cut from the recording of an H200."""

from __future__ import annotations

import io
import json
import shutil
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from analysis.__main__ import main
from experiments.data.recordings import recorded_jobs
from tests.conftest import ROOT

RECORDED = ROOT / "outputs" / "reference" / "h200" / "exploration"
KERNELS = ("torch", "fused_row", "copy", "copy_triton")
JOB = "vocab/native-auto/torch"
TORCH, CONFIG = f"{JOB}/rows.jsonl", f"{JOB}/config.json"


def contributed(into: Path) -> Path:
    """Four kernels on one grid: the files of their sweep, as the sweep left them."""
    folder = into / "contributed"
    for job in recorded_jobs(RECORDED):
        if job.name.startswith("vocab/") and job.name.rpartition("/")[2] in KERNELS:
            (folder / job.name).mkdir(parents=True)
            (folder / job.name / "config.json").write_text(json.dumps(job.config))
            rows = "".join(row.model_dump_json() + "\n" for row in job.rows)
            (folder / job.name / "rows.jsonl").write_text(rows)
    for name in ("sweep.json", "sessions.jsonl", "variants.json"):
        shutil.copy(RECORDED / name, folder)
    return folder


def edit(path: Path, line: int, **changes: Any) -> dict[str, Any]:
    """Changes fields of one line, from 1, and gives it as it then is."""
    rows = [json.loads(row) for row in path.read_text().splitlines()]
    rows[line - 1] |= changes
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    changed: dict[str, Any] = rows[line - 1]
    return changed


@dataclass(frozen=True)
class Answer:
    """How ``validate`` ended and what it printed."""

    status: int
    text: str

    @property
    def verdict(self) -> str:
        return self.text.rstrip().splitlines()[-1]


def validated(folder: Path, *arguments: str) -> Answer:
    """What ``python -m analysis validate`` says of a folder."""
    printed = io.StringIO()
    with redirect_stdout(printed):
        status = main(["validate", "--rows", str(folder), *arguments])
    return Answer(status, printed.getvalue())
