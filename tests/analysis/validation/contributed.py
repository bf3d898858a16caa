"""A real folder of rows, the recorded exploration of an H200, to put one fault into."""

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
RECORDED = recording(REFERENCE / "h200_exploration")
TORCH = "vocab/native-auto/torch/rows.jsonl"
COPY = "vocab/native-auto/copy/rows.jsonl"


def contributed(into: Path) -> Path:
    """A copy of the recorded folder."""
    folder = Path(shutil.copytree(RECORDED, into / "contributed"))
    shutil.copy(REFERENCE / "h200_exploration" / "table.md", folder)
    return folder


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def edit(path: Path, line: int, **changes: Any) -> dict[str, Any]:
    """Changes fields of one line, from 1, and gives it as it then is."""
    rows = lines_of(path)
    rows[line - 1] |= changes
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return rows[line - 1]


def rescaled(row: dict[str, Any], factor: float) -> dict[str, Any]:
    """All times of a row by a factor, so that they still agree with each other."""
    names = ("time_us", "time_low_us", "time_high_us")
    times = {name: row[name] * factor for name in names}
    return times | {"samples_us": [factor * sample for sample in row["samples_us"]]}


@dataclass(frozen=True)
class Told:
    """How the command ended and what it printed."""

    status: int
    text: str

    @property
    def verdict(self) -> str:
        return self.text.rstrip().splitlines()[-1]

    def problems(self) -> list[str]:
        """The headings of what is wrong, warnings left out."""
        heads = [line for line in self.text.splitlines() if line.startswith(_ASPECTS)]
        return [head for head in heads if not head.endswith("(warning)")]


def validated(folder: Path, *arguments: str) -> Told:
    """What ``python -m analysis validate`` says of a folder."""
    printed = io.StringIO()
    with redirect_stdout(printed):
        status = main(["validate", "--rows", str(folder), *arguments])
    return Told(status, printed.getvalue())


_ASPECTS = ("schema: ", "completeness: ", "privacy: ", "plausibility: ")
