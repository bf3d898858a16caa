"""``tables``: every table as Markdown, CSV and LaTeX."""

from __future__ import annotations

import argparse
from pathlib import Path

from analysis.commands.telling import check_names, finish
from analysis.format import Table, write
from analysis.load import read_inputs
from analysis.tables import MAKERS, tables_of
from experiments.data.rows import RowsError


def run(options: argparse.Namespace) -> int:
    """Writes each table as Markdown, CSV and LaTeX and prints the paths."""
    check_names(options.only, [module for module, _ in MAKERS])
    found = read_inputs(options.rows, options.out, "tables")
    tables, missed = tables_of(found, options.only)
    if not tables:
        raise RowsError(f"{found.rows}: no table can be written: {'; '.join(missed)}")
    made = [path for one in tables for path in formats(found.out / one.stem, one.table, one.data)]
    finish("tables", found, made, missed)
    return 0


def formats(stem: Path, table: Table, data: Table | None = None) -> list[Path]:
    """A table's three files; ``data`` takes its place in the CSV where that is for machines."""
    return [
        write(stem.with_suffix(".md"), table.markdown()),
        write(stem.with_suffix(".csv"), (data or table).csv()),
        write(stem.with_suffix(".tex"), table.latex()),
    ]
