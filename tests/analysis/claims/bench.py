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
    return Card.of(inputs(folder, rows, records), H200)


def timed(kernel: str, cols: int, time: float, **changes: Any) -> Row:
    """A row of this time with an interval of 1 % to both sides."""
    return row(kernel, cols, time_us=time, time_low_us=0.99 * time, time_high_us=1.01 * time,
               **changes)  # fmt: skip


def pairs(*speeds: float, **changes: Any) -> list[Row]:
    """fused at 10 µs, torch at so many times that, at `WIDTHS` in order."""
    return [
        timed(kernel, cols, time, **changes)
        for cols, speed in zip(WIDTHS, speeds, strict=False)
        for kernel, time in (("fused", 10.0), ("torch", 10.0 * speed))
    ]
