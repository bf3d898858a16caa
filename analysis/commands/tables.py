"""``tables``: every table as Markdown, CSV and LaTeX."""

from __future__ import annotations

import argparse

from analysis.commands.telling import check_names, finish
from analysis.load import read_inputs
from analysis.tables import TABLES, tables_of
from experiments.data.files import RowsError


def run(options: argparse.Namespace) -> int:
    """Writes each table as Markdown, CSV and LaTeX and prints the paths."""
    check_names(options.only, [one.name for one in TABLES])
    found = read_inputs(options.rows, options.out, "tables")
    tables, missed = tables_of(found, options.only)
    if not tables:
        raise RowsError(f"{found.rows}: no table can be written: {'; '.join(missed)}")
    made = [path for one in tables for path in one.files(found.out)]
    finish("tables", found, made, missed)
    return 0
