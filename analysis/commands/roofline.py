"""``roofline``: the roofline three ways, and the check of each point's time against its bytes."""

from __future__ import annotations

import argparse

from analysis import material
from analysis.check import check_table, checked, summary_table
from analysis.commands.telling import finish
from analysis.figure import draw_files, slug
from analysis.roofline.intensity import intensity
from analysis.roofline.predicted import predicted
from analysis.roofline.share import SHARE
from analysis.table import write
from experiments.rows import RowsError


def run(options: argparse.Namespace) -> int:
    """Draws the roofline three ways, writes the check and prints how many points it explains."""
    found = material.read(options, "roofline")
    out, frame, evidence = found.out, found.frame, found.evidence
    points = checked(frame, evidence)
    if points.empty:
        raise RowsError(
            f"{found.rows}: no roofline can be drawn: it needs timed rows and a copy variant, "
            "the roof, at the same shapes"
        )
    made = draw_files(SHARE, frame, out)
    missed = [] if made else [SHARE.needs]
    for gpu, timer, cache in sorted(set(zip(points["gpu"], points["timer"], points["cache"], strict=True))):  # fmt: skip # noqa: E501
        mine = points[(points["gpu"] == gpu) & (points["timer"] == timer)]
        mine = mine[mine["cache"] == cache]
        suffix = f"{slug(gpu)}-{timer}-{cache}"
        for plate in (intensity(mine, gpu, evidence, suffix), predicted(mine, gpu, suffix)):
            made += plate.files(out) if plate else []
    check, summary = check_table(points), summary_table(points)
    made += [
        write(out / "roofline.md", f"{summary.markdown()}\n{check.markdown()}"),
        write(out / "roofline.csv", check.csv()),
    ]
    finish("roofline", found, made, missed)
    print(f"\n{summary.plain()}")
    share = (points["verdict"] == "traffic").mean()
    print(f"\n{share:.0%} of {len(points):,} points are explained by traffic within 10 %.")
    if not evidence.counters:
        print("No counters were found: re-reads, spills and occupancy are judged from rows alone.")
    return 0
