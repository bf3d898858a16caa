"""The main results, one table per GPU and dtype, and D-test: time, bandwidth, roof and error."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from analysis.estimate import geometric_mean
from analysis.figures.style import slug, variant_order
from analysis.format import (
    Cell,
    NamedTable,
    Table,
    decimals,
    interval_text,
    number,
    number_text,
)
from analysis.load import Inputs
from analysis.published import sources
from analysis.selection import PROTOCOLS, middle_visits, name_variants, records_of
from experiments.data.cards import card_of

Shape = tuple[int, int]  # M, N
Row = Mapping[str, Any]
Value = tuple[float, ...]  # the value, and the least and the most that intervals allow

IRREGULAR: Shape = (1823, 781)  # D-test
MOST_SHAPES = 8  # shown where rows hold none of the sources' own
BASELINE = "naive"
D_TEST_NEEDS = "rows at {}×{} (grid=irregular)".format(*IRREGULAR)
MACHINE_COLUMNS = (
    "variant", "rows", "cols", "gpu", "dtype", "timer", "cache", "status", "reason", "time_us",
    "time_low_us", "time_high_us", "effective_gbps", "roof_gbps", "fraction_of_roof",
    "speedup_over_naive", "above_roof",
)  # fmt: skip
NOTE = (
    "Time: the median, its 95 % interval below it. GB/s: the bytes any softmax must move (2MN) "
    "over the time. Of roof: against the fastest copy of the same shape, protocol and sweep. "
    "Bold: the fastest."
)
SHARED = (
    "Over several shapes: those at which every variant has a time and none is above the roof; the "
    "ratio is their geometric mean, an interval what the ends of all intervals allow."
)
ABOVE = "! above the roof by more than its interval: L2 served it, or the model is wrong; no win."
ERRORS = (
    "Errors against float64: the largest absolute one, and ‖y − ref‖ / ‖ref‖; of several visits "
    "the worst. A row is ok where every element and every row sum is within the tolerance of its "
    "dtype."
)


def main(inputs: Inputs) -> list[NamedTable]:
    """A table for each GPU and dtype whose softmax rows have a time."""
    frame = inputs.frame
    rows = frame[(frame["backend"] != "interpreter") & (frame["rows"] > 0) & (frame["cols"] > 0)]
    # of a million rows each copy counts: a few columns will do
    timed = rows.loc[
        _timed(rows) & (rows["operation"] == "softmax"), ["gpu", "dtype", "timer", "cache"]
    ]
    return [
        _main_table(rows[(rows["gpu"] == gpu) & (rows["dtype"] == dtype)], protocols)
        for (gpu, dtype), protocols in timed.groupby(["gpu", "dtype"], sort=True)
    ]


def _main_table(rows: pd.DataFrame, protocols: pd.DataFrame) -> NamedTable:
    """Rows of one GPU and dtype under the first of their protocols that figures draw."""
    found = set(zip(protocols["timer"], protocols["cache"], strict=True))
    timer, cache = min(found, key=lambda p: (PROTOCOLS.index(p) if p in PROTOCOLS else 9, str(p)))
    alike = (rows["timer"] == timer) & (rows["cache"] == cache)
    rows = name_variants(rows[alike | ~_timed(rows)])
    gpu, dtype = rows[["gpu", "dtype"]].iloc[0]
    softmax = rows[rows["operation"] == "softmax"]
    points = {shape: _points(rows, shape) for shape in key_shapes(softmax)}
    present = sorted({v for point in points.values() for v in point}, key=variant_order)
    own = set(softmax["variant"])
    variants, copies = [v for v in present if v in own], [v for v in present if v not in own]
    letters: dict[str, str] = {}
    lines = [
        line
        for shape, point in points.items()
        for line in _shape_lines(shape, point, variants, copies, letters)
    ]
    summary = aggregates(points.values(), [*variants, *copies])
    above = any(row["above_roof"] for point in points.values() for row in point.values())
    reasons = [f"({letter}) {reason}" for reason, letter in letters.items()]
    notes = [NOTE, *[SHARED] * bool(summary), *[ABOVE] * above, *reasons]
    title = f"Main results: {card_of(gpu).name}, {dtype}, {cache} cache, {timer} timer"
    table = Table(title, ["M×N", "", *variants, *copies], [*lines, *summary], notes)
    every = pd.DataFrame([row for point in points.values() for row in point.values()])
    data = Table.of(title, every[list(MACHINE_COLUMNS)].astype({"above_roof": bool}))
    return NamedTable(f"main-{slug(gpu)}-{dtype}", table, data)


def key_shapes(rows: pd.DataFrame) -> list[Shape]:
    """The shapes that have lines of their own, ordered by M and N.

    Those of the sources' printed numbers and of D's test that rows have, else a spread of all.
    """
    present = sorted({(int(m), int(n)) for m, n in rows[["rows", "cols"]].to_numpy()})
    printed = {IRREGULAR}
    for series in (s for source in sources().values() for s in source.series.values()):
        if series.over == "cols" and series.rows is not None:
            printed |= {(series.rows, size) for size in series.sizes}
        elif series.over == "rows" and series.cols is not None:
            printed |= {(size, series.cols) for size in series.sizes}
    found = [shape for shape in present if shape in printed]
    if len(found) > 1:
        return found
    if len(present) <= MOST_SHAPES:
        return present
    last = len(present) - 1
    return [present[round(i * last / (MOST_SHAPES - 1))] for i in range(MOST_SHAPES)]


def aggregates(points: Iterable[Mapping[str, Row]], columns: Sequence[str]) -> list[list[str]]:
    """Lines over the shapes at which every variant has a valid time; none if there are not two.

    Never a mean of GB/s: that would weigh a short call as much as a long one. A variant that was
    tried at half of the shapes or fewer stands aside.

    Args:
        points: At each shape the row of each variant.
        columns: The variants, copies among them.
    """
    every = list(points)
    tried = [v for v in columns if sum(v in point for point in every) * 2 > len(every)]
    shared = [p for p in every if all(_counts(p.get(v)) for v in tried)]
    if len(shared) < 2:
        return []
    sizes = {v: sum(number(p[v], "compulsory_bytes") or 0 for p in shared) for v in tried}
    middle, low, high = (
        {v: np.array([_times(p[v])[end] or p[v]["time_us"] for p in shared]) for v in tried}
        for end in range(3)
    )
    speeds = {v: tuple(sizes[v] / sum(t[v]) / 1e3 for t in (middle, high, low)) for v in tried}
    best = max((speeds[v] for v in tried if shared[0][v]["operation"] != "copy"), default=None)
    lines = _aggregate(f"{len(shared)} shapes", "Σ bytes / Σ time, GB/s", columns, speeds, "", best)
    if BASELINE in tried:
        pairs = ((middle, middle), (low, high), (high, low))
        ratios = {v: tuple(geometric_mean(a[BASELINE] / b[v]) for a, b in pairs) for v in tried}
        lines += _aggregate("", f"times as fast as {BASELINE}", columns, ratios, "×", None)
    return lines


def d_test(inputs: Inputs) -> list[NamedTable]:
    """How far each variant is from float64 at D's irregular shape, by GPU and dtype."""
    frame, (m, n) = inputs.frame, IRREGULAR
    rows = frame[(frame["rows"] == m) & (frame["cols"] == n) & (frame["operation"] == "softmax")]
    # of several visits one that failed, else the one with the largest error
    worst = name_variants(rows).assign(fine=rows["status"] == "ok").sort_values(
        ["fine", "max_abs_error"], ascending=[True, False], na_position="last", kind="stable"
    ).drop_duplicates(["gpu", "dtype", "variant"])  # fmt: skip
    order = sorted(
        records_of(worst), key=lambda row: (row["gpu"], row["dtype"], variant_order(row["variant"]))
    )
    lines = []
    for row in order:
        reason = f": {row['reason']}" if isinstance(row["reason"], str) and row["reason"] else ""
        errors = (number(row, name) for name in ("max_abs_error", "relative_error"))
        texts = ["–" if error is None else f"{error:.2e}" for error in errors]
        place = [row["gpu"], row["dtype"], row["variant"]]
        lines.append([*place, f"{row['status']}{reason}", *texts])
    heads = ["GPU", "dtype", "variant", "status", "max abs error", "relative error"]
    table = Table(f"D-test: correctness at {m}×{n}", heads, lines, [ERRORS])
    return [NamedTable("d_test", table)]


def _timed(rows: pd.DataFrame) -> pd.Series:
    return (rows["status"] == "ok") & rows["time_us"].notna()


def _points(rows: pd.DataFrame, shape: Shape) -> dict[str, Row]:
    here = rows[(rows["rows"] == shape[0]) & (rows["cols"] == shape[1])]
    return {row["variant"]: row for row in records_of(middle_visits(here, "cols"))}


def _shape_lines(
    shape: Shape,
    point: Mapping[str, Row],
    variants: Sequence[str],
    copies: Sequence[str],
    letters: dict[str, str],
) -> list[list[str]]:
    """Four lines per shape: time, its interval, GB/s and the share of the roof.

    ``letters`` gains one for each new reason of those without a time.
    """
    valid = [row for row in point.values() if _is_valid(row)]
    racing = [point[v]["time_us"] for v in variants if v in point and _counts(point[v])]
    best = min(racing, default=None)
    shortest = min(valid, key=lambda row: float(row["time_us"]), default=None)
    digits = 0 if shortest is None else decimals(*_times(shortest))
    cells = []
    for variant in [*variants, *copies]:
        row = point.get(variant)
        if row is None:
            cells.append(["–", "", "", ""])
        elif not _is_valid(row):
            cells.append([_failure(row, letters), "", "", ""])
        else:
            time, low, high = _times(row)
            strong = variant in variants and _counts(row) and time == best
            share = number(row, "fraction_of_roof")
            percent = "–" if share is None else f"{100 * share:.1f} %{'!' * row['above_roof']}"
            time_cell = Cell(number_text(time, digits), strong=strong)
            speed = number_text(number(row, "effective_gbps"))
            cells.append([time_cell, interval_text(low, high, digits), speed, percent])
    heads = ([f"{shape[0]}×{shape[1]}", "time µs"], ["", "95 %"], ["", "GB/s"], ["", "of roof"])
    return [head + list(line) for head, line in zip(heads, zip(*cells, strict=True), strict=True)]


def _failure(row: Row, letters: dict[str, str]) -> str:
    """The status and the letter of its reason: a, b, …, z, aa."""
    status = "not timed" if row["status"] == "ok" else str(row["status"])
    if not isinstance(row["reason"], str) or not row["reason"]:
        return status
    return f"{status} ({letters.setdefault(row['reason'], _letter(len(letters)))})"


def _letter(index: int) -> str:
    before, last = divmod(index, 26)
    return (_letter(before - 1) if before else "") + chr(ord("a") + last)


def _is_valid(row: Row) -> bool:
    return bool(row["status"] == "ok") and number(row, "time_us") is not None


def _counts(row: Row | None) -> bool:
    """Whether a row has a time that may win."""
    return row is not None and _is_valid(row) and not row["above_roof"]


def _times(row: Row) -> tuple[float, float | None, float | None]:
    return float(row["time_us"]), number(row, "time_low_us"), number(row, "time_high_us")


def _aggregate(
    name: str,
    what: str,
    columns: Sequence[str],
    values: Mapping[str, Value],
    unit: str,
    best: Value | None,
) -> list[list[str]]:
    lines = [[name, what], ["", "interval"]]
    for variant in columns:
        if (value := values.get(variant)) is None:
            lines[0].append("–")
            lines[1].append("")
        else:
            middle, low, high = value
            digits = decimals(middle, low, high)
            lines[0].append(Cell(number_text(middle, digits) + unit, strong=value == best))
            lines[1].append(interval_text(low, high, digits))
    return lines
