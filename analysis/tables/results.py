"""Time, bandwidth and share of the roof by GPU and dtype; D-test; models priced for all cards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from analysis.estimate import geometric_mean
from analysis.figures.style import CACHES, slug, variant_order
from analysis.format import Cell, NamedTable, Table, decimals, interval_text, number, number_text
from analysis.limits import LARGE_BYTES
from analysis.load import Inputs
from analysis.published import OPERATION, sources
from analysis.selection import (
    PROTOCOLS,
    compulsory,
    middle_visits,
    name_variants,
    records_of,
    timer_label,
)
from experiments.data.cards import card_of, known_cards
from experiments.data.statistics import unconverged

Shape = tuple[int, int]  # M, N

IRREGULAR: Shape = (1823, 781)  # D-test
# The sources' own points: A and D's width, A's ends, B's long row, C's worked example.
PRICED = ((4096, 1024, "float32"), (4096, 16384, "float32"), (4096, 262144, "float32"),
          (8192, 32000, "float16"))  # fmt: skip
FEWEST_PRICED = 2  # shapes shown where rows hold none of these: their largest
ALIKE = 1.05  # as much memory, but for what an allocator rounds up
MOST_SHAPES = 8  # shown where rows hold none of the sources' own
BASELINE = "naive"
TIMES = ("time_us", "time_low_us", "time_high_us")
MACHINE_COLUMNS = (
    "variant", "rows", "cols", "gpu", "dtype", "timer", "cache", "status", "reason", "time_us",
    "time_low_us", "time_high_us", "effective_gbps", "roof_gbps", "fraction_of_roof",
    "speedup_over_naive", "above_roof",
)  # fmt: skip
NOTE = (
    "Time: the median, its 95 % interval below it; a letter: why sampling ended before that was as "
    "narrow as asked. GB/s: the bytes that any kernel of the operation must move{} over the time. "
    "Of roof: against the fastest {} of the same shape, protocol and sweep{}. Bold: the fastest."
)
MEMORY = (
    "Memory: the most that a call had beyond its inputs, its output among it; shown where variants "
    "differ."
)
SHARED = (
    "Over several shapes: those at which every variant has a time and none is above the roof; the "
    "ratio is their geometric mean, an interval what the ends of all intervals allow."
)
ABOVE = (
    "! above the roof by more than its interval: L2 served it, or the model is wrong; not a win."
)
ARITHMETIC = ", or arithmetic alone where that takes longer"
ROOFS = (
    "A point, a shape and dtype under one protocol, is above its roof where most of its visits are "
    "by more than their interval: the interval's end, in bytes a second, is beyond the roof's. Its "
    "share is the median of its visits. Roof: the operation whose fastest row is 100 %.",
)
PRICES = (
    "Times in µs: the model's bytes over the datasheet's memory bandwidth. That is a lower bound "
    "at DRAM: no card reaches its datasheet, and launches, spills and on-chip limits come on top.",
    "A time says nothing of whether the variant fits the card. Where the matrix fits a card's L2, "
    "re-reads may beat it.",
)
ERRORS = (
    "Errors against float64: the largest absolute one, and ‖y − ref‖ / ‖ref‖; of several visits "
    "the worst. A row is ok where every element and every row sum is within the tolerance of its "
    "dtype."
)


def main(inputs: Inputs) -> list[NamedTable]:
    """A table for each GPU, operation and dtype whose rows have a time and a protocol.

    The operation that is the roof stands beside it, no other does.
    """
    frame = inputs.frame
    rows = frame[(frame["backend"] != "interpreter") & (frame["rows"] > 0) & (frame["cols"] > 0)]
    # of a million rows each copy counts: a few columns will do
    timed = rows.loc[
        _timed(rows) & (rows["operation"] != rows["roof"]),
        ["gpu", "operation", "roof", "dtype", "timer", "cache"],
    ].dropna()  # a time of no known protocol compares with nothing
    tables = []
    for (gpu, operation, dtype), protocols in timed.groupby(["gpu", "operation", "dtype"]):
        beside = rows["operation"].isin([operation, *protocols["roof"].unique()])
        mine = rows[beside & (rows["gpu"] == gpu) & (rows["dtype"] == dtype)]
        tables.append(_main_table(mine, str(operation), protocols))
    # the sources' own operation first
    return sorted(tables, key=lambda table: table.stem.count("_"))


def _main_table(rows: pd.DataFrame, operation: str, protocols: pd.DataFrame) -> NamedTable:
    """Rows of one GPU and dtype under the first of their protocols that figures draw."""
    found = set(zip(protocols["timer"], protocols["cache"], strict=True))
    timer, cache = min(found, key=lambda p: (PROTOCOLS.index(p) if p in PROTOCOLS else 9, str(p)))
    alike = (rows["timer"] == timer) & (rows["cache"] == cache)
    rows = name_variants(rows[alike | ~_timed(rows)])
    gpu, dtype = rows[["gpu", "dtype"]].iloc[0]
    racing = rows[rows["operation"] == operation]
    points = _points(rows, key_shapes(racing))
    present = sorted(set(points["variant"]), key=variant_order)
    own = set(racing["variant"])
    variants = [v for v in present if v in own] + [v for v in present if v not in own]
    letters: dict[str, str] = {}
    lines = [
        line
        for _, point in points.groupby(["rows", "cols"])
        for line in _shape_lines(point, variants, own, letters)
    ]
    summary = aggregates(points, variants)
    reasons = [f"({letter}) {reason}" for reason, letter in letters.items()]
    remembered = any(line[1] == "memory MB" for line in lines)
    moved = compulsory(racing)
    of_operation = f" ({moved} of {operation})" if moved else ""
    of_arithmetic = ARITHMETIC if racing["arithmetic_us"].notna().any() else ""
    notes = [
        NOTE.format(of_operation, racing["roof"].iloc[0], of_arithmetic),
        *[MEMORY] * remembered,
        *[SHARED] * bool(summary),
        *[ABOVE] * int(points["above_roof"].any()),
        *reasons,
    ]
    other = [operation] * (operation != OPERATION)
    places = [card_of(gpu).name, *other, dtype, f"{cache} cache", f"{timer} timer"]
    title = f"Main results: {', '.join(places)}"
    table = Table(title, ["M×N", "", *variants], [*lines, *summary], notes)
    data = Table.of(title, points[list(MACHINE_COLUMNS)])
    return NamedTable("-".join(["main", *map(slug, other), slug(gpu), dtype]), table, data)


def _points(rows: pd.DataFrame, shapes: Sequence[Shape]) -> pd.DataFrame:
    """The middle visit of each variant at these shapes; ``timed``: it has one; ``may_win``."""
    at = [rows[(rows["rows"] == m) & (rows["cols"] == n)] for m, n in shapes]
    points = pd.concat([middle_visits(here, "cols") for here in at], ignore_index=True)
    points = points.drop_duplicates(["rows", "cols", "variant"], keep="last")
    above, timed = points["above_roof"].astype(bool), _timed(points)
    return points.assign(above_roof=above, timed=timed, may_win=timed & ~above)


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
    places = np.linspace(0, len(present) - 1, min(len(present), MOST_SHAPES))
    return [present[round(place)] for place in places]


def aggregates(points: pd.DataFrame, variants: Sequence[str]) -> list[list[str]]:
    """Lines over the shapes at which every variant has a valid time; none if there are not two.

    Never a mean of GB/s: that would weigh a short call as much as a long one. A variant that was
    tried at half of the shapes or fewer stands aside.

    Args:
        points: The row of each variant at each shape.
        variants: The columns, copies among them.
    """
    tries, shapes = points["variant"].value_counts(), points.groupby(["rows", "cols"]).ngroups
    tried = [v for v in variants if tries[v] * 2 > shapes]
    valid = points[points["may_win"]].fillna({"compulsory_bytes": 0})
    size, middle, low, high = (
        valid.pivot(index=["rows", "cols"], columns="variant", values=name)
        .reindex(columns=tried)
        .dropna()
        for name in ("compulsory_bytes", "time_us", "time_low_us", "time_high_us")
    )
    if len(middle) < 2:
        return []
    speeds = [size.sum() / times.sum() / 1e3 for times in (middle, high, low)]
    racing = set(valid.loc[valid["operation"] != valid["roof"], "variant"])
    best = speeds[0][[variant for variant in tried if variant in racing]].max()
    lines = _aggregate(f"{len(middle)} shapes", "Σ bytes / Σ time, GB/s", variants, speeds, best)
    if BASELINE in tried:
        pairs = ((middle, middle), (low, high), (high, low))
        ratios = [b.rdiv(a[BASELINE], axis=0).agg(geometric_mean) for a, b in pairs]
        lines += _aggregate("", f"times as fast as {BASELINE}", variants, ratios, unit="×")
    return lines


def _aggregate(
    name: str,
    what: str,
    variants: Sequence[str],
    ends: Sequence[pd.Series],
    best: float | None = None,
    unit: str = "",
) -> list[list[str]]:
    """Two lines: the values, and the least and the most that all intervals allow."""
    columns = [[name, ""], [what, "interval"]]
    for variant in variants:
        cells = ["–", ""]
        if variant in ends[0]:
            value, low, high = (float(end[variant]) for end in ends)
            digits = decimals(value, low, high)
            cells = [Cell(number_text(value, digits) + unit, strong=value == best),
                     interval_text(low, high, digits)]  # fmt: skip
        columns.append(cells)
    return list(map(list, zip(*columns, strict=True)))


def above_roof(inputs: Inputs) -> list[NamedTable]:
    """How many points of each variant are above the roof by more than their interval, and which."""
    frame = inputs.frame
    own = frame[_timed(frame) & (frame["backend"] != "interpreter") & frame["roof_gbps"].notna()]
    own = name_variants(own[own["operation"] != own["roof"]])
    alike = ["gpu", "timer", "cache", "variant", "roof"]
    points = own.groupby([*alike, "compulsory_bytes", "rows", "cols", "dtype"], as_index=False).agg(
        share=("fraction_of_roof", "median"), above=("above_roof", "mean")
    )
    points["above"] = points["above"] > 0.5
    large = points["compulsory_bytes"] >= LARGE_BYTES
    lines = []
    for place, mine in points.groupby(alike):
        gpu, timer, cache, variant, roof = map(str, place)
        counts = [len(mine), mine["above"].sum(), large[mine.index].sum(),
                  (mine["above"] & large[mine.index]).sum()]  # fmt: skip
        which = "; ".join(
            f"{row['rows']}×{row['cols']} {row['dtype']} {100 * row['share']:.1f} %"
            for row in records_of(mine[mine["above"]].iloc[::-1])
        )
        protocol = f"{timer_label(timer)}, {CACHES.get(cache, cache)}"
        lines.append([card_of(gpu).name, protocol, variant, roof, *map(str, counts), which or "–"])
    lines.sort(key=lambda line: (*line[:2], variant_order(line[2])))
    size = f"{LARGE_BYTES / 1e6:.0f} MB and more"
    heads = ["GPU", "timer", "variant", "roof", "points", "above", size, "of them above", "which"]
    title = "Above the roof by more than the interval"
    table = Table(title, heads, lines, ROOFS)
    return [NamedTable("above_roof", table, Table.of(title, points[points["above"]]))]


def d_test(inputs: Inputs) -> list[NamedTable]:
    """How far each variant is from float64 at D's irregular shape, by GPU and dtype."""
    frame, (m, n) = inputs.frame, IRREGULAR
    rows = frame[(frame["rows"] == m) & (frame["cols"] == n) & (frame["operation"] == OPERATION)]
    # of several visits one that failed, else the one with the largest error
    worst = name_variants(rows).assign(fine=rows["status"] == "ok").sort_values(
        ["fine", "max_abs_error"], ascending=[True, False], na_position="last", kind="stable"
    ).drop_duplicates(["gpu", "dtype", "variant"])  # fmt: skip
    order = worst.assign(order=worst["variant"].map(variant_order))
    lines = []
    for row in records_of(order.sort_values(["gpu", "dtype", "order"])):
        errors = (number(row, name) for name in ("max_abs_error", "relative_error"))
        texts = ["–" if error is None else f"{error:.2e}" for error in errors]
        reason = f": {row['reason']}" if isinstance(row["reason"], str) else ""
        place = [row["gpu"], row["dtype"], row["variant"]]
        lines.append([*place, f"{row['status']}{reason}", *texts])
    heads = ["GPU", "dtype", "variant", "status", "max abs error", "relative error"]
    table = Table(f"D-test: correctness at {m}×{n}", heads, lines, [ERRORS])
    return [NamedTable("d_test", table)]


def cards(inputs: Inputs) -> list[NamedTable]:
    """Every model's bytes at the datasheet bandwidth of each card that ``conf/gpu`` describes."""
    priced = name_variants(inputs.frame[inputs.frame["model_bytes"].gt(0)])
    sizes = priced.groupby(["rows", "cols", "dtype", "variant"])["model_bytes"].max()
    present = {(int(m), int(n), str(dtype)) for m, n, dtype, _ in sizes.index}
    largest = sorted(present, key=lambda place: (place[0] * place[1], place))[-FEWEST_PRICED:]
    cards = [(card.name, card.peak_gbps) for card in known_cards() if card.peak_gbps]
    lines = []
    for m, n, dtype in [place for place in PRICED if place in present] or largest:
        here = sizes.loc[m, n, dtype]
        for variant in sorted(here.index, key=variant_order):
            times = [f"{here[variant] / gbps / 1e3:,.1f}" for _, gbps in cards]
            lines.append([variant, f"{m}×{n}", dtype, *times])
    heads = ["variant", "M×N", "dtype", *(f"{name}, {gbps:,.0f} GB/s" for name, gbps in cards)]
    return [NamedTable("cards", Table("The models priced for other cards", heads, lines, PRICES))]


def _timed(rows: pd.DataFrame) -> pd.Series:
    return (rows["status"] == "ok") & rows["time_us"].notna()


def _shape_lines(
    point: pd.DataFrame, variants: Sequence[str], racing: set[str], letters: dict[str, str]
) -> list[list[str]]:
    """Four lines of one shape: time, its interval, GB/s and the share of the roof.

    Memory follows where variants differ in it, and flop/s where the operation counts any.
    ``letters`` gains one for each new reason of those without a time.
    """
    rows = {row["variant"]: row for row in records_of(point)}
    timed = [row for row in rows.values() if row["timed"]]
    best = min((r["time_us"] for r in timed if r["may_win"] and r["variant"] in racing), default=0)
    shortest = min(timed, key=lambda row: float(row["time_us"]), default=None)
    digits = 0 if shortest is None else decimals(*(shortest[name] for name in TIMES))
    m, n = point[["rows", "cols"]].iloc[0]
    further = _further([row for row in timed if row["variant"] in racing])
    columns = [[f"{m}×{n}", "", "", ""], ["time µs", "95 %", "GB/s", "of roof", *further]]
    columns[0] += [""] * len(further)
    for variant in variants:
        cells = _cells(rows.get(variant), digits, letters)
        if (row := rows.get(variant)) and row["may_win"] and row["time_us"] == best:
            cells[0] = Cell(cells[0], strong=variant in racing)
        more = (values.get(variant) for values in further.values())
        columns.append([*cells, *("" if value is None else number_text(value) for value in more)])
    return list(map(list, zip(*columns, strict=True)))


def _further(timed: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, float]]:
    """What else is shown of a shape, by variant: only what says something."""
    memory = {r["variant"]: b / 1e6 for r in timed if (b := number(r, "peak_bytes")) is not None}
    rates = {r["variant"]: f / r["time_us"] / 1e6 for r in timed if (f := number(r, "flops"))}
    differ = max(memory.values(), default=0) > ALIKE * min(memory.values(), default=0)
    found = {"memory MB": memory if differ else {}, "Tflop/s": rates}
    return {name: values for name, values in found.items() if values}


def _cells(row: Mapping[str, Any] | None, digits: int, letters: dict[str, str]) -> list[str]:
    if row is None:
        return ["–", "", "", ""]
    if not row["timed"]:
        status = "not timed" if row["status"] == "ok" else str(row["status"])
        if isinstance(row["reason"], str):
            status += f" ({letters.setdefault(row['reason'], _letter(len(letters)))})"
        return [status, "", "", ""]
    time, low, high = (number(row, name) for name in TIMES)
    share = number(row, "fraction_of_roof")
    percent = "–" if share is None else f"{100 * share:.1f} %{'!' * row['above_roof']}"
    speed, ended = number_text(number(row, "effective_gbps")), unconverged(row["stop_reason"])
    mark = f" ({letters.setdefault(ended, _letter(len(letters)))})" if ended else ""
    text = f"{number_text(time, digits)}{mark}"
    return [text, interval_text(low, high, digits), speed, percent]


def _letter(index: int) -> str:
    """A, b, …, z, aa: the letter of a reason."""
    before, last = divmod(index, 26)
    return (_letter(before - 1) if before else "") + chr(ord("a") + last)
