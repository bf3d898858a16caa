"""Inputs made of rows and declarations, and a table's lines by their first cell."""

from __future__ import annotations

from pathlib import Path

from analysis.format import NamedTable, Table
from analysis.load import Inputs, Records, load
from experiments.data.jobs import Declaration
from experiments.data.rows import Row
from tests.analysis.plausible import write


def material_of(
    folder: Path, rows: list[Row], *declared: Declaration, evidence: Records | None = None
) -> Inputs:
    """Rows as a command reads them, with these declarations beside them."""
    frame = load(write(folder, rows))
    told = {one.kernel: one for one in declared}
    return Inputs(folder, folder, frame, evidence or Records(), told)


def lines_of(made: list[NamedTable]) -> dict[str, dict[str, str]]:
    """The only table's cells by their heads, by line."""
    (one,) = made
    return by_first(one.table)


def by_first(table: Table) -> dict[str, dict[str, str]]:
    """The same."""
    return {line[0]: dict(zip(table.heads, line, strict=True)) for line in table.lines}
