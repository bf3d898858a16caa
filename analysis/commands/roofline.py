"""``roofline``: the roofline three ways, and the check of each point's time against its bytes."""

from __future__ import annotations

import argparse

from analysis.commands.telling import finish
from analysis.format import write
from analysis.gallery import missing, pictures
from analysis.load import read_inputs
from analysis.roofline import ROOFLINE_FIGURES
from analysis.verdicts import check_table, checked, summary_table
from experiments.data.files import RowsError


def run(options: argparse.Namespace) -> int:
    """Draws the roofline three ways, writes the check and prints how many points it explains."""
    found = read_inputs(options.rows, options.out, "roofline")
    out, drawn = found.out, ROOFLINE_FIGURES
    points = checked(found.frame, found.records)
    if points.empty:
        raise RowsError(
            f"{found.rows}: no roofline can be drawn: it needs timed rows and a copy variant, "
            "the roof, at the same shapes"
        )
    pieces = list(pictures(found, drawn))
    made = [path for picture in pieces for path in picture.plate.files(out)]
    check, summary = check_table(points), summary_table(points)
    made += [
        write(out / "roofline.md", f"{summary.markdown()}\n{check.markdown()}"),
        write(out / "roofline.csv", check.csv()),
    ]
    finish("roofline", found, made, missing(pieces, drawn))
    print(f"\n{summary.plain()}")
    share = (points["verdict"] == "traffic").mean()
    print(f"\n{share:.0%} of {len(points):,} points are explained by traffic within 10 %.")
    if not found.records.counters:
        print("No counters were found: re-reads, spills and occupancy are judged from rows alone.")
    return 0
