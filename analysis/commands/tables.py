"""``tables``: every table as Markdown, CSV and LaTeX."""

from __future__ import annotations

import argparse
from pathlib import Path

from analysis import material
from analysis.cells import cells
from analysis.commands.telling import tell
from analysis.pricing import price_table
from analysis.table import Table, write
from analysis.traffic.comparison import backends
from analysis.traffic_table import long_table, wide_table


def run(options: argparse.Namespace) -> int:
    """Writes each table as Markdown, CSV and LaTeX and prints the paths."""
    found = material.read(options, "tables")
    out = found.out
    made, missed = [], []
    seen = cells(found.evidence, backends(found.frame))
    if seen:
        made += formats(out / "traffic", wide_table(seen), long_table(seen))
    else:
        missed.append("traffic needs counts.jsonl or counters.jsonl (make counters)")
    made += formats(out / "cards", price_table(found.frame))
    tell(made, missed)
    return 0


def formats(stem: Path, table: Table, data: Table | None = None) -> list[Path]:
    """A table's three files; ``data`` takes its place in the CSV where that is for machines."""
    return [
        write(stem.with_suffix(".md"), table.markdown()),
        write(stem.with_suffix(".csv"), (data or table).csv()),
        write(stem.with_suffix(".tex"), table.latex()),
    ]
