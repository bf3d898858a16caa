"""Inputs of a command, made of rows and declarations."""

from __future__ import annotations

from pathlib import Path

from analysis.load import Inputs, Records, load
from experiments.data.jobs import Declaration
from experiments.data.rows import Row
from tests.analysis.plausible import write


def inputs_of(
    folder: Path, rows: list[Row], *declared: Declaration, records: Records | None = None
) -> Inputs:
    """Rows as a command reads them, with these declarations beside them."""
    frame = load(write(folder, rows))
    declarations = {one.kernel: one for one in declared}
    return Inputs(folder, folder, frame, records or Records(), declarations)
