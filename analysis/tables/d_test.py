"""D-test: how far each variant is from float64 at D's irregular shape."""

from __future__ import annotations

from typing import Any

import pandas as pd

from analysis.format import Table, number
from analysis.lines import variant_order
from analysis.load import Inputs
from analysis.selection import name_variants, records_of
from analysis.tables.named import NamedTable
from analysis.tables.shapes import IRREGULAR

NOTES = (
    "Errors against float64: the largest absolute one, and ‖y − ref‖ / ‖ref‖; of several visits "
    "the worst. A row is ok where every element and every row sum is within the tolerance of its "
    "dtype.",
)


def d_test(material: Inputs) -> NamedTable | str:
    """A line a GPU, dtype and variant; or what is missing."""
    frame, (m, n) = material.frame, IRREGULAR
    rows = frame[(frame["rows"] == m) & (frame["cols"] == n) & (frame["operation"] == "softmax")]
    if rows.empty:
        return f"d_test needs rows at {m}×{n} (grid=irregular)"
    groups = name_variants(rows).groupby(["gpu", "dtype", "variant"], sort=True)
    worst = [_worst(visits) for _, visits in groups]
    worst.sort(key=lambda row: (row["gpu"], row["dtype"], variant_order(row["variant"])))
    lines = [_line(row) for row in worst]
    heads = ["GPU", "dtype", "variant", "status", "max abs error", "relative error"]
    return NamedTable("d_test", Table(f"D-test: correctness at {m}×{n}", heads, lines, NOTES))


def _worst(visits: pd.DataFrame) -> dict[str, Any]:
    """A visit that failed, else the one with the largest error."""
    ordered = visits.assign(fine=visits["status"] == "ok").sort_values(
        ["fine", "max_abs_error"], ascending=[True, False], na_position="last", kind="stable"
    )
    return records_of(ordered)[0]


def _line(row: dict[str, Any]) -> list[str]:
    reason = f": {row['reason']}" if isinstance(row["reason"], str) and row["reason"] else ""
    errors = (number(row, "max_abs_error"), number(row, "relative_error"))
    told = ["–" if error is None else f"{error:.2e}" for error in errors]
    return [row["gpu"], row["dtype"], row["variant"], f"{row['status']}{reason}", *told]
