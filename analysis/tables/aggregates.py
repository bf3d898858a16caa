"""Many shapes as one number: bytes over time, and the geometric mean of time ratios."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from analysis.estimate import geometric_mean
from analysis.format import Cell, decimals, interval_text, number, number_text
from analysis.tables.outcomes import Point, Shape, is_valid

AGAINST = "naive"
ENDS = (("time_us", "time_us"), ("time_low_us", "time_high_us"), ("time_high_us", "time_low_us"))
Told = Mapping[str, Point]
Value = tuple[float, float, float]  # the value, the least and the most that intervals allow


def aggregates(points: Mapping[Shape, Told], columns: Sequence[str]) -> list[list[str]]:
    """Lines over the shapes at which every variant has a valid time; none if there are not two.

    Never a mean of GB/s: that would weigh a short call as much as a long one. A variant that was
    tried at half of the shapes or fewer stands aside.

    Args:
        points: The row of each variant at each shape.
        columns: The variants, copies among them.
    """
    tried = [v for v in columns if sum(v in told for told in points.values()) * 2 > len(points)]
    shared = [told for told in points.values() if all(_counts(told.get(v)) for v in tried)]
    if len(shared) < 2:
        return []
    speeds = {v: _bytes_over_time([told[v] for told in shared]) for v in tried}
    racing = [v for v in tried if shared[0][v]["operation"] != "copy"]
    best = max((speeds[v] for v in racing), default=None)
    lines = _lines(f"{len(shared)} shapes", "Σ bytes / Σ time, GB/s", columns, speeds, "", best)
    if AGAINST in tried:
        means = {v: _mean_ratio([(told[AGAINST], told[v]) for told in shared]) for v in tried}
        lines += _lines("", f"times as fast as {AGAINST}", columns, means, "×", None)
    return lines


def _counts(row: Point | None) -> bool:
    return row is not None and is_valid(row) and not row["above_roof"]


def _lines(
    name: str,
    what: str,
    columns: Sequence[str],
    values: Mapping[str, Value],
    unit: str,
    best: Value | None,
) -> list[list[str]]:
    middle, ends = [], []
    for variant in columns:
        value = values.get(variant)
        if value is None:
            middle.append("–")
            ends.append("")
            continue
        digits = decimals(*value)
        middle.append(Cell(number_text(value[0], digits) + unit, strong=value == best))
        ends.append(interval_text(value[1], value[2], digits))
    return [[name, what, *middle], ["", "interval", *ends]]


def _bytes_over_time(rows: Sequence[Point]) -> Value:
    total = sum(number(row, "compulsory_bytes") or 0 for row in rows)
    middle, high, low = (
        total / sum(_time(row, end) for row in rows) / 1e3
        for end in ("time_us", "time_low_us", "time_high_us")
    )
    return middle, low, high


def _mean_ratio(pairs: Sequence[tuple[Point, Point]]) -> Value:
    middle, low, high = (
        geometric_mean(_time(a, one) / _time(b, other) for a, b in pairs) for one, other in ENDS
    )
    return middle, low, high


def _time(row: Point, end: str) -> float:
    return number(row, end) or float(row["time_us"])
