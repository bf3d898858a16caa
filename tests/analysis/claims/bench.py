"""A card with rows and records made up for a test."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from analysis.claims.measure import Card, Where
from analysis.load import Inputs, Records, load
from experiments.data.rows import Row
from tests.analysis.plausible import row, write

H200 = "NVIDIA H200"
WIDTHS = (1024, 2048, 4096)
LINE = Where(rows=4096, cols=list(WIDTHS), dtype="float32")


def inputs(folder: Path, rows: Iterable[Row], records: Records | None = None) -> Inputs:
    """These rows as a command reads them."""
    frame = load(write(folder / "rows", rows))
    return Inputs(folder, folder / "out", frame, records or Records(), {})


def card(folder: Path, rows: Iterable[Row], records: Records | None = None) -> Card:
    """The H200 of these rows."""
    return Card(H200, inputs(folder, rows, records))


def pairs(*speeds: float, **changes: Any) -> list[Row]:
    """fused at 10 µs, torch at so many times that, at `WIDTHS` in order."""
    times = [(n, {"fused": 10.0, "torch": 10.0 * s}) for n, s in zip(WIDTHS, speeds, strict=False)]
    return [
        row(kernel, n, time_us=us, **changes) for n, both in times for kernel, us in both.items()
    ]
