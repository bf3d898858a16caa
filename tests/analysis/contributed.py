"""A small folder of rows as someone might contribute it, cut from the recording of an H200."""

from __future__ import annotations

import io
import json
import shutil
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from analysis.__main__ import main
from experiments.data.packed import recording
from tests.conftest import ROOT

REFERENCE = ROOT / "outputs" / "reference"
KERNELS = ("torch", "fused_row", "copy", "copy_triton")
TORCH = "vocab/native-auto/torch/rows.jsonl"
COPY = "vocab/native-auto/copy/rows.jsonl"
CONFIG = "vocab/native-auto/torch/config.json"


def contributed(into: Path) -> Path:
    """Four kernels on two grids: the files of their sweep, as the sweep left them."""
    recorded, folder = recording(REFERENCE / "h200_exploration"), into / "contributed"
    for grid in ("vocab", "batch"):
        for kernel in KERNELS:
            job = f"{grid}/native-auto/{kernel}"
            shutil.copytree(recorded / job, folder / job)
    for name in ("sweep.json", "sessions.jsonl"):
        shutil.copy(recorded / name, folder)
    variants = json.loads((REFERENCE / "h200_exploration" / "variants.json").read_text())
    write_json(folder / "variants.json", {name: variants[name] for name in KERNELS})
    shutil.copy(REFERENCE / "h200_exploration" / "table.md", folder)
    return folder


def write_json(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, indent=1) + "\n")


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def edit(path: Path, line: int, **changes: Any) -> dict[str, Any]:
    """Changes fields of one line, from 1, and gives it as it then is."""
    rows = lines_of(path)
    rows[line - 1] |= changes
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return rows[line - 1]


def edit_config(folder: Path, group: str, **changes: Any) -> None:
    """Changes one group of a job's configuration, the whole of it where ``group`` is empty."""
    config = json.loads((folder / CONFIG).read_text())
    (config[group] if group else config).update(changes)
    write_json(folder / CONFIG, config)


def rescaled(row: dict[str, Any], factor: float) -> dict[str, Any]:
    """All times of a row by a factor, so that they still agree with each other."""
    names = ("time_us", "time_low_us", "time_high_us")
    times = {name: row[name] * factor for name in names}
    return times | {"samples_us": [factor * sample for sample in row["samples_us"]]}


@dataclass(frozen=True)
class Answer:
    """How the command ended and what it printed."""

    status: int
    text: str

    @property
    def verdict(self) -> str:
        return self.text.rstrip().splitlines()[-1]

    @property
    def problems(self) -> list[str]:
        """The headings of what is wrong, warnings left out."""
        aspects = ("schema: ", "completeness: ", "privacy: ", "plausibility: ")
        heads = [line for line in self.text.splitlines() if line.startswith(aspects)]
        return [head for head in heads if not head.endswith("(warning)")]


def validated(folder: Path, *arguments: str) -> Answer:
    """What ``python -m analysis validate`` says of a folder."""
    printed = io.StringIO()
    with redirect_stdout(printed):
        status = main(["validate", "--rows", str(folder), *arguments])
    return Answer(status, printed.getvalue())
