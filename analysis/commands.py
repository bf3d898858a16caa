"""The subcommands: what each reads, writes and prints."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import pandas as pd

from analysis.figure import draw_files, slug
from analysis.load import REFERENCE, load, newest_rows
from analysis.records import Evidence, load_evidence
from analysis.table import Table, write
from experiments.rows import RowsError

OUTPUTS = Path("outputs")


def figures(options: argparse.Namespace) -> int:
    """Draws every figure the rows and records allow and prints the paths of what it made."""
    from analysis.figures import FIGURES
    from analysis.traffic import EVIDENCE_FIGURES

    rows, out, frame, evidence = _read(options, "figures")
    made, missed = [], []
    for figure in FIGURES:
        files = draw_files(figure, frame, out)
        made += files
        missed += [] if files else [figure.needs]
    for drawn in EVIDENCE_FIGURES:
        plates = drawn.plates(evidence, frame)
        made += [path for plate in plates for path in plate.files(out)]
        missed += [] if plates else [drawn.needs]
    if not made:
        raise RowsError(f"{rows}: no figure can be drawn: {'; '.join(missed)}")
    _tell(made, missed)
    return 0


def roofline(options: argparse.Namespace) -> int:
    """Draws the roofline three ways, writes the check and prints how many points it explains."""
    from analysis.check import check_table, checked, summary_table
    from analysis.roofline.intensity import intensity
    from analysis.roofline.predicted import predicted
    from analysis.roofline.share import SHARE

    rows, out, frame, evidence = _read(options, "roofline")
    points = checked(frame, evidence)
    if points.empty:
        raise RowsError(
            f"{rows}: no roofline can be drawn: it needs timed rows and a copy variant, the roof, "
            "at the same shapes"
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
    _tell(made, missed)
    print(f"\n{summary.plain()}")
    share = (points["verdict"] == "traffic").mean()
    print(f"\n{share:.0%} of {len(points):,} points are explained by traffic within 10 %.")
    if not evidence.counters:
        print("No counters were found: re-reads, spills and occupancy are judged from rows alone.")
    return 0


def tables(options: argparse.Namespace) -> int:
    """Writes each table as Markdown, CSV and LaTeX and prints the paths."""
    from analysis.cells import cells
    from analysis.pricing import price_table
    from analysis.traffic.comparison import backends
    from analysis.traffic_table import long_table, wide_table

    _, out, frame, evidence = _read(options, "tables")
    made, missed = [], []
    found = cells(evidence, backends(frame))
    if found:
        made += _formats(out / "traffic", wide_table(found), long_table(found))
    else:
        missed.append("traffic needs counts.jsonl or counters.jsonl (make counters)")
    made += _formats(out / "cards", price_table(frame))
    _tell(made, missed)
    return 0


def _formats(stem: Path, table: Table, data: Table | None = None) -> list[Path]:
    return [
        write(stem.with_suffix(".md"), table.markdown()),
        write(stem.with_suffix(".csv"), (data or table).csv()),
        write(stem.with_suffix(".tex"), table.latex()),
    ]


def _read(options: argparse.Namespace, kind: str) -> tuple[Path, Path, pd.DataFrame, Evidence]:
    rows = options.rows or newest_rows(OUTPUTS)
    folder = rows.parent if rows.is_file() else rows
    # what is drawn from the reference as a whole goes to the outputs, not into it
    beside = OUTPUTS if folder == OUTPUTS / REFERENCE else folder
    return rows, options.out or beside / kind, load(rows), load_evidence(rows)


def _tell(made: list[Path], missed: list[str]) -> None:
    for path in made:
        print(path)
    for needs in missed:
        print(f"skipped: {needs}", file=sys.stderr)
