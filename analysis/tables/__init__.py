"""The sources' tables and this project's own.

A table is one entry of `TABLES`: a function of the inputs, which yields tables with the names of
their files. The CSV beside a table has the numbers as they are and, in ``keys`` and ``recordings``,
the rows behind each line, which ``python -m analysis trace`` prints.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence

from analysis.__main__ import finish, only
from analysis.format import Table, write_table
from analysis.load import Inputs, read_inputs
from analysis.points import NEEDS
from analysis.tables import limits, results
from analysis.tables.frames import Named
from experiments.data.files import RowsError

DECLARED = "variants.json with a softmax variant beside the rows (a sweep writes it)"
# By the name that --only takes: the rows that a table needs, and its function.
TABLES: Mapping[str, tuple[str, Callable[[Inputs], Named]]] = {
    "headline": (NEEDS, limits.headline),
    "operations": (NEEDS, limits.operations),
    "main": ("rows with a time", results.main),
    "a_tab1": (DECLARED, results.a_tab1),
    "b_tab1": (DECLARED, results.b_tab1),
    "c_ex": ("rows of online, of which C works an example", results.c_ex),
    "d_test": ("rows at 1823×781 (grid=irregular)", results.d_test),
    "limits": (NEEDS, limits.limits),
    "determinism": ("rows asked for the same bits (determinism=true)", results.determinism),
    "memory": ("rows that say how much memory a call had", results.memory),
    "traffic": ("counts or counters of the rows' kernels (make counters)", results.traffic),
}


def tables_of(inputs: Inputs, asked: Sequence[str] = ()) -> tuple[dict[str, Table], list[str]]:
    """Every table that the inputs allow, by its files' name, and what each of the others needs.

    Args:
        inputs: Rows, and all that lies beside them.
        asked: Names of `TABLES`; none for all of them.
    """
    made: dict[str, Table] = {}
    missing = []
    for name, (needs, make) in TABLES.items():
        if not asked or name in asked:
            found = {stem: table for stem, table in make(inputs) if table.lines}
            made |= found
            missing += [] if found else [f"{name} needs {needs}"]
    return made, missing


def run(options: argparse.Namespace) -> int:
    """Writes each table as Markdown and CSV, and prints the paths."""
    asked = only(options.only, list(TABLES))
    inputs = read_inputs(options.rows, options.out, "tables", options.ours)
    tables, missing = tables_of(inputs, asked)
    if not tables:
        raise RowsError(f"{inputs.rows}: no table can be written: {'; '.join(missing)}")
    files = [path for stem, one in tables.items() for path in write_table(inputs.out, stem, one)]
    finish(files, missing)
    return 0
