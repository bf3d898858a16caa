"""Tables of measurements: times, errors, memory and equal bits; C-ex."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from analysis.figures.style import file_name, slug
from analysis.format import Cell, Table, number_text
from analysis.load import Inputs
from analysis.published import OPERATION, Line, compared, sources
from analysis.selection import PROTOCOLS, middle_visits, name_variants, one_sweep, records_of, timed
from analysis.tables.frames import (
    BEHIND,
    Named,
    by_shape,
    ordered,
    protocol,
    table,
    texts,
)
from experiments.data.cards import card_of
from experiments.data.rows import ITEM_BYTES
from experiments.data.statistics import unconverged

IRREGULAR = (1823, 781)  # M and N of D's test
MOST_SHAPES = 8  # shown where rows hold none of the sources' own
MACHINE = [
    *("variant", "rows", "cols", "gpu", "dtype", "timer", "cache", "status", "reason", "time_us"),
    *("time_low_us", "time_high_us", "effective_gbps", "roof_gbps", "fraction_of_roof"),
    *("speedup_over_naive", "above_roof"),
]


def main(inputs: Inputs) -> Named:
    """Time and share of the roof by shape and variant, for each GPU, operation and dtype."""
    frame = inputs.main
    own = frame[timed(frame) & (frame["operation"] != frame["roof"])]
    for _, every in own.groupby(own["operation"].ne(OPERATION)):  # softmax first
        for at, good in every.groupby(["operation", "gpu", "dtype", "set"]):
            operation, gpu, dtype, name = map(str, at)
            rows = frame[frame["operation"].isin([operation, *good["roof"].unique()])]
            alike = (rows["set"] == name) & (rows["gpu"] == gpu) & (rows["dtype"] == dtype)
            title = f"Main results: {card_of(gpu).name}, {operation}, {dtype}"
            found = _main_table(title, one_sweep(rows[alike], good), operation)
            yield file_name("main", operation, slug(gpu), dtype), found


def _main_table(title: str, rows: pd.DataFrame, operation: str) -> Table:
    """Rows of one GPU and dtype, of one sweep, under the first protocol that figures draw."""
    known = rows.loc[timed(rows) & (rows["operation"] == operation), ["timer", "cache"]]
    protocols = set(known.itertuples(index=False, name=None))
    timer, cache = min(protocols, key=lambda p: (PROTOCOLS.index(p) if p in PROTOCOLS else 9, p))
    alike = (rows["timer"] == timer) & (rows["cache"] == cache)
    rows = name_variants(rows[alike | ~timed(rows)])
    own = rows[rows["operation"] == operation]
    at = [rows[(rows["rows"] == m) & (rows["cols"] == n)] for m, n in _key_shapes(own)]
    points = pd.concat([middle_visits(one, "cols") for one in at], ignore_index=True)
    points = points.drop_duplicates(["rows", "cols", "variant"], keep="last", ignore_index=True)
    points["good"] = good = timed(points)
    wins = good & ~points["above_roof"] & (points["operation"] == operation)
    wins = points["time_us"].where(wins)
    strong = wins.notna() & wins.eq(wins.groupby([points["rows"], points["cols"]]).transform("min"))
    cells = [Cell(*one) for one in zip(map(_cell, records_of(points)), strong, strict=True)]
    shown = by_shape(points.assign(text=pd.Series(cells, dtype=object)))
    late = int(points.loc[good, "stop_reason"].map(unconverged).ne("").sum())
    facts = {"protocol": protocol(timer, cache), "roof": own["roof"].iloc[0]}
    notes = texts("main", late=late, times=int(good.sum()), **facts)
    failed = points[~good & points["reason"].notna()]
    reasons = failed["variant"] + ", " + failed["status"] + ": " + failed["reason"]
    data = points[MACHINE].assign(keys=points["key"], recordings=points["recording"])
    return table(title, shown, [*notes, *reasons.unique()], data)


def _cell(row: Mapping[str, Any]) -> str:
    if not row["good"]:
        return "not timed" if row["status"] == "ok" else str(row["status"])
    share = "" if pd.isna(row["fraction_of_roof"]) else f" ({100 * row['fraction_of_roof']:.0f} %)"
    return f"{number_text(row['time_us'])}{share}{'!' * row['above_roof']}"


def _key_shapes(rows: pd.DataFrame) -> list[tuple[int, int]]:
    """The shapes of the sources' numbers and of D's test that rows have, else a spread of all."""
    known = rows[rows["rows"].gt(0) & rows["cols"].gt(0)]
    present = sorted({(int(m), int(n)) for m, n in known[["rows", "cols"]].to_numpy()})
    every = [one for source in sources().values() for one in source.series.values()]
    printed = {(one.rows or size, one.cols or size) for one in every for size in one.sizes}
    found = [shape for shape in present if shape in printed | {IRREGULAR}]
    places = np.linspace(0, len(present) - 1, min(len(present), MOST_SHAPES))
    return found if len(found) > 1 else [present[round(place)] for place in places]


def d_test(inputs: Inputs) -> Named:
    """How far each variant is from float64 at D's irregular shape, by GPU and dtype."""
    frame, (m, n) = inputs.main, IRREGULAR
    rows = frame[(frame["rows"] == m) & (frame["cols"] == n) & (frame["operation"] == OPERATION)]
    # of several visits one that failed, else the one with the largest error
    visits = name_variants(rows).assign(fine=rows["status"] == "ok")
    visits = visits.sort_values(["fine", "max_abs_error"], ascending=[True, False], kind="stable")
    worst = ordered(visits.drop_duplicates(["gpu", "dtype", "variant"]), "gpu", "dtype")
    names = ["gpu", "dtype", "variant", "status", "reason", "max_abs_error", "relative_error"]
    errors = worst[names].assign(keys=worst["key"], recordings=worst["recording"])
    yield "d_test", table(f"D-test: correctness at {m}×{n}", errors, texts("d_test"))


def c_ex(inputs: Inputs) -> Named:
    """C's worked example recomputed, where rows hold the kernel that it is about."""
    if "online" in set(inputs.main["kernel"]):
        title = "C-ex: the worked example, recomputed"
        yield "c_ex", Table(title, Line._fields, compared(), texts("c_ex"))


def memory(inputs: Inputs) -> Named:
    """The most memory that a call had beyond its inputs, in matrices of M×N elements."""
    frame = inputs.main
    known = frame["peak_bytes"].notna() & (frame["status"] == "ok") & frame["rows"].gt(0)
    known &= frame["cols"].gt(0) & (frame["operation"] != frame["roof"])
    wide, most = ["rows", "cols"], {"peak_bytes": ("peak_bytes", "max")}
    for at, rows in name_variants(frame[known]).groupby(["gpu", "operation", "dtype"]):
        gpu, operation, dtype = map(str, at)
        peaks = rows.groupby([*wide, "variant"], as_index=False).agg(**most, **BEHIND)
        matrix = peaks[wide].prod(axis=1) * ITEM_BYTES[dtype]
        peaks.insert(4, "matrices", peaks["peak_bytes"] / matrix)
        shown = by_shape(peaks.assign(text=peaks["matrices"].map("{:,.2f}".format)))
        title = f"Peak memory beyond the inputs: {card_of(gpu).name}, {operation}, {dtype}"
        stem = "-".join(["memory", slug(operation), slug(gpu), dtype])
        yield stem, table(title, shown, texts("memory"), peaks)


def determinism(inputs: Inputs) -> Named:
    """Whose answers are always the same bits, at each call and for a row in any M."""
    rows = name_variants(inputs.frame[inputs.frame["deterministic"].notna()])
    for gpu, mine in rows.groupby("gpu"):
        lines = [
            {
                **{"parts": str(operation).count("_"), "operation": operation, "variant": variant},
                "the same at each call": _answer(one, "deterministic"),
                "the same in any M": _answer(one, "batch_invariant"),
                "points": len(one.drop_duplicates(["rows", "cols", "dtype"])),
                **{name: how(one[column]) for name, (column, how) in BEHIND.items()},
            }
            for (operation, variant), one in mine.groupby(["operation", "variant"])
        ]
        found = ordered(pd.DataFrame(lines), "parts", "operation").drop(columns="parts")
        title = f"The same bits: {card_of(str(gpu)).name}"
        yield f"determinism-{slug(str(gpu))}", table(title, found, texts("determinism"))


def _answer(rows: pd.DataFrame, column: str) -> str:
    """One cell, of the answers at all points of a variant; of several visits the worst counts."""
    known = rows.dropna(subset=column).astype({column: bool})
    same = known.groupby(["rows", "cols", "dtype"])[column].min()
    wrong = [f"{m}×{n} {dtype}" for m, n, dtype in same.index[~same]]
    if len(wrong) in (0, len(same)):
        return "–" if same.empty else "no" if wrong else "yes"
    more = f" and {len(wrong) - 4} more" if len(wrong) > 4 else ""
    return f"not at {', '.join(wrong[:4])}{more}"
