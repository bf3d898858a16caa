"""The most device memory that a call had beyond its inputs, in matrices of M×N elements."""

from __future__ import annotations

from typing import Any

import pandas as pd

from analysis.figures.style import slug, variant_order
from analysis.format import NamedTable, Table, number_text
from analysis.load import Inputs
from analysis.published import OPERATION
from analysis.selection import name_variants, records_of
from experiments.data.cards import card_of
from experiments.data.rows import ITEM_BYTES

NEEDS = "rows that say how much memory a call had (peak_bytes)"
LEAST = 0.05  # of a matrix: what is less is printed in bytes
UNITS = ((1e6, "MB"), (1e3, "KB"), (1, "B"))
NOTES = (
    "In units of the memory of one M×N matrix of the dtype, the output included: 1 is a result of "
    "its own and nothing beside it, of cross-entropy one buffer of logits. Less than a twentieth "
    "of a matrix is given in bytes.",
    "A dash: the kernel has no row there. Of several visits it is the most.",
)


def memory(inputs: Inputs) -> list[NamedTable]:
    """A table for each GPU, operation and dtype, a line per shape; the sources' operation first."""
    frame = inputs.frame
    known = frame[frame["peak_bytes"].notna() & (frame["status"] == "ok")]
    known = known[(known["rows"] > 0) & (known["cols"] > 0) & (known["operation"] != known["roof"])]
    found = name_variants(known).groupby(["gpu", "operation", "dtype"])
    tables = [
        _table(str(gpu), str(operation), str(dtype), rows)
        for (gpu, operation, dtype), rows in found
    ]
    return sorted(tables, key=lambda table: OPERATION not in table.table.title.split(", "))


def _table(gpu: str, operation: str, dtype: str, rows: pd.DataFrame) -> NamedTable:
    place = ["rows", "cols", "variant"]
    peaks: pd.DataFrame = rows.groupby(place, as_index=False).agg(peak_bytes=("peak_bytes", "max"))
    peaks["matrices"] = peaks["peak_bytes"] / (peaks["rows"] * peaks["cols"] * ITEM_BYTES[dtype])
    variants = sorted(peaks["variant"].unique(), key=variant_order)
    lines = []
    for (m, n), mine in peaks.groupby(["rows", "cols"]):
        cells = {row["variant"]: _text(row) for row in records_of(mine)}
        lines.append([f"{m}×{n}", *(cells.get(variant, "–") for variant in variants)])
    title = f"Peak memory beyond the inputs: {', '.join([card_of(gpu).name, operation, dtype])}"
    stem = "-".join(["memory", slug(operation), slug(gpu), dtype])
    return NamedTable(stem, Table(title, ["M×N", *variants], lines, NOTES), Table.of(title, peaks))


def _text(row: dict[str, Any]) -> str:
    peak, matrices = float(row["peak_bytes"]), float(row["matrices"])
    if matrices >= LEAST or not peak:
        return number_text(matrices, 2) if peak else "0"
    unit, name = next(one for one in UNITS if peak >= one[0])
    return f"{number_text(peak / unit)} {name}"
