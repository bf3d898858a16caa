"""``report``: figures, tables, claims and all else as one HTML file."""

from __future__ import annotations

import argparse

from analysis.commands.telling import finish
from analysis.format import write
from analysis.load import read_inputs
from analysis.report.page import page


def run(options: argparse.Namespace) -> int:
    """Writes ``report.html`` and prints its path."""
    found = read_inputs(options.rows, options.out, "report")
    finish("report", found, [write(found.out / "report.html", page(found))], [])
    return 0
