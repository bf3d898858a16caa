"""``figures``: every figure that the rows and records allow."""

from __future__ import annotations

import argparse

from analysis.commands.telling import check_names, finish
from analysis.gallery import DRAWN, missing, pictures
from analysis.load import read_inputs
from experiments.data.files import RowsError


def run(options: argparse.Namespace) -> int:
    """Draws every figure the rows and records allow and prints the paths of what it made."""
    check_names(options.only, [entry.id for entry in DRAWN])
    entries = tuple(e for e in DRAWN if not options.only or e.id in options.only)
    found = read_inputs(options.rows, options.out, "figures")
    drawn = list(pictures(found, entries))
    made = [path for picture in drawn for path in picture.plate.files(found.out)]
    missed = missing(drawn, entries)
    if not made:
        raise RowsError(f"{found.rows}: no figure can be drawn: {'; '.join(missed)}")
    finish("figures", found, made, missed)
    return 0
