"""The table at a sweep's end: kernel × shape with time, bandwidth, share of the roof and status."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from experiments.data.rows import Row

PRINTED = 66  # rows that still fit a look; a longer table is thinned on screen, whole on disk
COLUMNS = ("dtype", "M×N", "kernel", "time µs", "95 %", "GB/s", "of roof", "traffic", "status")


def result_table(rows: Sequence[dict[str, Any]], labels: Mapping[str, str], path: Path) -> None:
    """Writes the whole table as Markdown and prints it, or a part that fits a screen.

    Args:
        rows: Derived rows.
        labels: By key, the kernel with the tunables that were set.
        path: The Markdown file.
    """
    ordered = sorted(
        rows,
        key=lambda r: (r["dtype"], r["rows"], r["cols"], r["round"], r["time_us"] or 9e99),
    )
    lines = [_cells(row, labels) for row in ordered]
    head = ["| " + " | ".join(COLUMNS) + " |", "|" + "---|" * len(COLUMNS)]
    text = "\n".join([*head, *("| " + " | ".join(line) + " |" for line in lines)]) + "\n"
    try:
        path.write_text(text)
    except OSError as error:  # the rows are on disk, and they alone decide the exit status
        print(f"warning: {path} could not be written: {error.strerror}", file=sys.stderr)
    shown = _thinned(ordered)
    table = Table(box=None, pad_edge=False, header_style="bold", row_styles=None)
    for name in COLUMNS:
        right = name in ("time µs", "GB/s", "of roof")
        table.add_column(name, justify="right" if right else "left", no_wrap=name != "status")
    place = None
    for row in shown:
        cells = _cells(row, labels)
        here = cells[:2]
        if here == place:
            cells[:2] = ["", ""]
        elif place is not None:
            table.add_section()
        place = here
        table.add_row(*cells)
    console = Console()
    if not console.is_terminal:
        console = Console(width=140)
    console.print(table)
    if len(shown) < len(ordered):
        print(f"shown: {len(shown)} of {len(ordered)} points; all of them in {path}")


def _cells(row: dict[str, Any], labels: Mapping[str, str]) -> list[str]:
    timed = row["time_us"] is not None
    share = row["fraction_of_roof"]
    return [
        row["dtype"],
        f"{row['rows']}×{row['cols']}",
        labels.get(row["key"], row["kernel"]),
        _number(row["time_us"]) if timed else "",
        f"{_number(row['time_low_us'])}–{_number(row['time_high_us'])}" if timed else "",
        f"{row['effective_gbps']:.0f}" if timed and row["effective_gbps"] >= 10
        else f"{row['effective_gbps']:.2g}" if timed else "",
        f"{share:.0%}{'!' if row['above_roof'] else ''}" if share is not None else "",
        row["model_formula"] or "",
        _status(row),
    ]  # fmt: skip


def _status(row: dict[str, Any]) -> str:
    if row["status"] != "ok":
        return f"{row['status']}: {row['reason']}" if row["reason"] else str(row["status"])
    notes = [*row["suspect"]]
    if row["time_us"] is None:
        notes.append("interpreted, not timed")
    if row["above_roof"]:
        notes.append("above the roof")
    return "; ".join(["ok", *notes])


def _number(value: float) -> str:
    return f"{value:.1f}" if value < 1000 else f"{value:.0f}"


def _thinned(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows at as many shapes as fit, spread evenly over the sweep's."""
    if len(rows) <= PRINTED:
        return list(rows)
    places = list(dict.fromkeys((r["dtype"], r["rows"], r["cols"]) for r in rows))
    wanted = max(PRINTED * len(places) // len(rows), 1)
    kept = {places[round(i * (len(places) - 1) / max(wanted - 1, 1))] for i in range(wanted)}
    return [r for r in rows if (r["dtype"], r["rows"], r["cols"]) in kept]


def account(measured: Sequence[Row], elapsed_s: float) -> str:
    """How the wall time of this run was spent, in one line."""
    if not measured:
        return f"nothing to measure; {elapsed_s:.1f} s"
    sampling = sum(row.sampling_s or 0 for row in measured)
    compiling = sum(row.compile_s or 0 for row in measured)
    rest = elapsed_s - sampling - compiling
    return (
        f"{len(measured)} points in {elapsed_s:.1f} s: sampling {sampling:.1f} s, "
        f"compiling {compiling:.1f} s, the rest {rest:.1f} s"
    )
