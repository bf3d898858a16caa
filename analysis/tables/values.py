"""Results for machines: one line a variant and shape, numbers as recorded."""

from __future__ import annotations

from collections.abc import Mapping

from analysis.format import Table, number
from analysis.tables.outcomes import Point, Shape

WORDS = ("gpu", "dtype", "timer", "cache", "status", "reason")
NUMBERS = ("time_us", "time_low_us", "time_high_us", "effective_gbps", "roof_gbps",
           "fraction_of_roof", "speedup_over_naive")  # fmt: skip


def values_table(title: str, points: Mapping[Shape, Mapping[str, Point]]) -> Table:
    """Every point of a main table; an empty cell where there is no number."""
    heads = ["variant", "rows", "cols", *WORDS, *NUMBERS, "above_roof"]
    lines = [
        [variant, str(shape[0]), str(shape[1]), *(_word(row[name]) for name in WORDS),
         *(_number(number(row, name)) for name in NUMBERS), str(bool(row["above_roof"])).lower()]
        for shape, told in points.items()
        for variant, row in told.items()
    ]  # fmt: skip
    return Table(title, heads, lines)


def _word(value: object) -> str:
    return value if isinstance(value, str) else ""


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.6g}"
