"""Tables of what rows measured: times by variant, errors, memory, equal bits, cards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from analysis.estimate import geometric_mean
from analysis.figures.style import slug, variant_order
from analysis.format import Cell, Table, number_text
from analysis.load import Inputs
from analysis.points import LARGE_BYTES
from analysis.published import OPERATION, sources
from analysis.selection import (
    PROTOCOLS,
    compulsory,
    middle_visits,
    name_variants,
    one_sweep,
    records_of,
)
from analysis.tables.frames import BEHIND, Named, protocol, shown_sets, table, timed
from experiments.data.cards import card_of, known_cards
from experiments.data.rows import ITEM_BYTES
from experiments.data.statistics import unconverged

IRREGULAR = (1823, 781)  # M and N of D's test
# The sources' own points: A and D's width, A's ends, B's long row, C's worked example.
PRICED = ((4096, 1024, "float32"), (4096, 16384, "float32"), (4096, 262144, "float32"),
          (8192, 32000, "float16"))  # fmt: skip
MOST_SHAPES = 8  # shown where rows hold none of the sources' own
SHORT_US = 20  # below it launches and the timer's steps have the larger say between cards
MACHINE = [
    "variant", "rows", "cols", "gpu", "dtype", "timer", "cache", "status", "reason", "time_us",
    "time_low_us", "time_high_us", "effective_gbps", "roof_gbps", "fraction_of_roof",
    "speedup_over_naive", "above_roof",
]  # fmt: skip
ERRORS = (
    "Errors against float64: the largest absolute one, and ‖y − ref‖ / ‖ref‖; of several visits "
    "the worst. A row is ok where every element and every row sum is within its dtype's tolerance."
)
ROOFS = (
    "A point is a shape and dtype under one protocol. It is above its roof where most of its "
    "visits are, by more than their interval. Its share is the median of its visits. Roof: the "
    "operation whose fastest row is 100 %."
)
MATRICES = (
    "In units of one M×N matrix of the dtype, the output included: 1 is a result of its own and "
    "nothing beside it. 0.00: less than half a hundredth; the CSV has the bytes. A dash: the "
    "kernel has no row there. Of several visits the most."
)
BITS = (
    "The same at each call: six calls on the same inputs give the same bits. The same in any M: "
    "the first row, the last eight and the middle half, each given alone, have the bits that they "
    "have among all rows; a kernel whose calls differ has none of that. A dash: not to be judged."
)
PRICES = (
    "Times in µs: the model's bytes over the datasheet's memory bandwidth. That is a lower bound "
    "at DRAM: no card reaches its datasheet, and launches, spills and on-chip limits come on top. "
    "Where the matrix fits a card's L2, re-reads may beat it."
)
CARDS = (
    "A card's time over the geometric mean of all cards, at points that every card of one sweep "
    "measured. A card is named by its index on its host."
)


def main(inputs: Inputs) -> Named:
    """Time and share of the roof by shape and variant, for each GPU, operation and dtype."""
    frame = inputs.main
    own = frame[timed(frame) & (frame["operation"] != frame["roof"])]
    places = own[["operation", "gpu", "dtype", "set"]].drop_duplicates().to_numpy(object).tolist()
    for operation, gpu, dtype, name in sorted(places, key=lambda at: (at[0] != OPERATION, at)):
        roofs = own.loc[own["operation"] == operation, "roof"].unique()
        mine = frame[frame["operation"].isin([operation, *roofs]) & (frame["set"] == name)]
        other = [operation] * (operation != OPERATION)
        title = f"Main results: {', '.join([card_of(gpu).name, *other, dtype])}"
        rows = mine[(mine["gpu"] == gpu) & (mine["dtype"] == dtype)]
        stem = "-".join(["main", *map(slug, other), slug(gpu), dtype])
        yield stem, _main_table(title, rows, operation)


def _main_table(title: str, rows: pd.DataFrame, operation: str) -> Table:
    """Rows of one GPU and dtype, of one sweep, under the first protocol that figures draw."""
    rows = one_sweep(rows, rows[timed(rows) & (rows["operation"] == operation)])
    good = rows[timed(rows) & (rows["operation"] == operation)]
    known = set(zip(good["timer"], good["cache"], strict=True))
    timer, cache = min(known, key=lambda p: (PROTOCOLS.index(p) if p in PROTOCOLS else 9, p))
    alike = (rows["timer"] == timer) & (rows["cache"] == cache)
    rows = name_variants(rows[alike | ~timed(rows)])
    own = rows[rows["operation"] == operation]
    at = [rows[(rows["rows"] == m) & (rows["cols"] == n)] for m, n in key_shapes(own)]
    points = pd.concat([middle_visits(one, "cols") for one in at], ignore_index=True)
    points = points.drop_duplicates(["rows", "cols", "variant"], keep="last")
    points["good"] = timed(points)
    wins = points["good"] & ~points["above_roof"] & (points["operation"] == operation)
    best = points[wins].groupby(["rows", "cols"])["time_us"].transform("min")
    strong = points["time_us"].eq(best.reindex(points.index)) & wins
    cells = {(row["rows"], row["cols"], row["variant"]): Cell(_cell(row), one)
             for row, one in zip(records_of(points), strong, strict=True)}  # fmt: skip
    variants = sorted(points["variant"].unique(), key=variant_order)
    shapes = sorted({(m, n) for m, n, _ in cells})
    lines = [[f"{m}×{n}", *(cells.get((m, n, v), "–") for v in variants)] for m, n in shapes]
    failed = points[~points["good"] & points["reason"].notna()]
    moved, times = compulsory(own), points[points["good"]]
    moves = f" (which moves {moved})" if moved else ""
    late = int(times["stop_reason"].map(unconverged).ne("").sum())
    notes = [
        f"Median time in µs ({protocol(timer, cache)}) and, in brackets, the share of the "
        f"bandwidth of the fastest {own['roof'].iloc[0]} of the same shape{moves}. Bold: the "
        "fastest. !: above the roof by more than its interval, and no win.",
        f"{late} of {len(times)} times stopped before they were as precise as asked. The CSV has "
        "intervals, bandwidths and speedups.",
        *dict.fromkeys(f"{r['variant']}, {r['status']}: {r['reason']}" for r in records_of(failed)),
    ]
    data = points[MACHINE].assign(keys=points["key"], recordings=points["recording"])
    return Table(title, ["M×N", *variants], [*lines, *_together(points, variants)], notes, data)


def _cell(row: Mapping[str, Any]) -> str:
    if not row["good"]:
        return "not timed" if row["status"] == "ok" else str(row["status"])
    share = "" if pd.isna(row["fraction_of_roof"]) else f" ({100 * row['fraction_of_roof']:.0f} %)"
    return f"{number_text(row['time_us'])}{share}{'!' * row['above_roof']}"


def key_shapes(rows: pd.DataFrame) -> list[tuple[int, int]]:
    """The shapes that have lines of their own, ordered by M and N.

    Those of the sources' printed numbers and of D's test that rows have, else a spread of all.
    """
    known = rows[rows["rows"].gt(0) & rows["cols"].gt(0)]
    present = sorted({(int(m), int(n)) for m, n in known[["rows", "cols"]].to_numpy()})
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


def _together(points: pd.DataFrame, variants: Sequence[str]) -> list[list[str]]:
    """Lines over the shapes at which every variant has a valid time; none if there are not two.

    Never a mean of GB/s: that would weigh a short call as much as a long one. A variant that was
    tried at half of the shapes or fewer stands aside.
    """
    tries, shapes = points["variant"].value_counts(), points.groupby(["rows", "cols"]).ngroups
    tried = [variant for variant in variants if tries[variant] * 2 > shapes]
    valid = points[points["good"] & ~points["above_roof"]].fillna({"compulsory_bytes": 0})
    size, times = (
        valid.pivot(index=["rows", "cols"], columns="variant", values=name)
        .reindex(columns=tried)
        .dropna()
        for name in ("compulsory_bytes", "time_us")
    )
    if len(times) < 2:
        return []
    found = {f"{len(times)} shapes, Σ bytes / Σ time, GB/s": size.sum() / times.sum() / 1e3}
    if "naive" in tried:
        ratios = times.rdiv(times["naive"], axis=0)
        found["times as fast as naive"] = ratios.agg(geometric_mean)
    return [[name, *(number_text(one.get(v)) for v in variants)] for name, one in found.items()]


def d_test(inputs: Inputs) -> Named:
    """How far each variant is from float64 at D's irregular shape, by GPU and dtype."""
    frame, (m, n) = inputs.main, IRREGULAR
    rows = frame[(frame["rows"] == m) & (frame["cols"] == n) & (frame["operation"] == OPERATION)]
    named = name_variants(rows)
    # of several visits one that failed, else the one with the largest error
    worst = named.assign(
        fine=named["status"] == "ok", order=named["variant"].map(variant_order)
    ).sort_values(["fine", "max_abs_error"], ascending=[True, False], kind="stable")
    worst = worst.drop_duplicates(["gpu", "dtype", "variant"]).sort_values(
        ["gpu", "dtype", "order"]
    )
    names = ["gpu", "dtype", "variant", "status", "reason", "max_abs_error", "relative_error"]
    errors = worst[names].assign(keys=worst["key"], recordings=worst["recording"])
    yield "d_test", table(f"D-test: correctness at {m}×{n}", errors, [ERRORS])


def above_roof(inputs: Inputs) -> Named:
    """How many points of each variant are above the roof by more than their interval, and which."""
    frame = shown_sets(inputs)
    own = frame[timed(frame) & frame["roof_gbps"].notna() & (frame["operation"] != frame["roof"])]
    if own.empty:
        return
    alike = ["set", "gpu", "timer", "cache", "variant", "roof"]
    place = [*alike, "compulsory_bytes", "rows", "cols", "dtype"]
    points = name_variants(own).groupby(place, as_index=False).agg(
        share=("fraction_of_roof", "median"), above=("above_roof", "mean"), **BEHIND
    )  # fmt: skip
    points["above"] = points["above"] > 0.5
    points["large"] = points["compulsory_bytes"] >= LARGE_BYTES
    points["which"] = [
        f"{r['rows']}×{r['cols']} {r['dtype']} {100 * r['share']:.1f} %" if r["above"] else ""
        for r in records_of(points)
    ]
    points["both"] = points["above"] & points["large"]
    counts = points.groupby(alike, as_index=False).agg(
        points=("above", "size"), above=("above", "sum"), large=("large", "sum"),
        large_above=("both", "sum"), which=("which", lambda found: "; ".join(filter(None, found))),
    )  # fmt: skip
    counts["order"] = counts["variant"].map(variant_order)
    counts = counts.sort_values([*alike[:4], "order"]).drop(columns="order")
    large = f"{LARGE_BYTES / 1e6:.0f} MB and more"
    counts = counts.rename(columns={"large": large, "large_above": "of them above"})
    title = "Above the roof by more than the interval"
    yield "above_roof", table(title, counts, [ROOFS], points[points["above"]])


def memory(inputs: Inputs) -> Named:
    """The most memory that a call had beyond its inputs, in matrices of M×N elements."""
    frame = inputs.main
    known = frame["peak_bytes"].notna() & (frame["status"] == "ok") & frame["rows"].gt(0)
    known &= frame["cols"].gt(0) & (frame["operation"] != frame["roof"])
    for (gpu, operation, dtype), rows in name_variants(frame[known]).groupby(
        ["gpu", "operation", "dtype"]
    ):
        gpu, operation, dtype = str(gpu), str(operation), str(dtype)
        place = ["rows", "cols", "variant"]
        peaks = rows.groupby(place, as_index=False).agg(peak_bytes=("peak_bytes", "max"), **BEHIND)
        matrix = peaks["rows"] * peaks["cols"] * ITEM_BYTES[dtype]
        peaks.insert(4, "matrices", peaks["peak_bytes"] / matrix)
        texts = peaks.assign(text=[number_text(value, 2) for value in peaks["matrices"]])
        wide = texts.pivot(index=["rows", "cols"], columns="variant", values="text").fillna("–")
        wide = wide[sorted(wide.columns, key=lambda name: variant_order(str(name)))]
        wide.insert(0, "M×N", [f"{m}×{n}" for m, n in wide.index])
        title = f"Peak memory beyond the inputs: {', '.join([card_of(gpu).name, operation, dtype])}"
        stem = "-".join(["memory", slug(operation), slug(gpu), dtype])
        yield stem, table(title, wide, [MATRICES], peaks)


def determinism(inputs: Inputs) -> Named:
    """Whose answers are always the same bits, at each call and for a row in any M."""
    rows = name_variants(inputs.frame[inputs.frame["deterministic"].notna()])
    for gpu, mine in rows.groupby("gpu"):
        found = mine.groupby(["operation", "variant"]).agg(**BEHIND)
        for column, question in (("deterministic", "the same at each call"),
                                 ("batch_invariant", "the same in any M")):  # fmt: skip
            judged = mine.dropna(subset=column)
            place = ["operation", "variant", "rows", "cols", "dtype"]
            worst = judged.assign(same=judged[column].astype(bool)).groupby(place)["same"].min()
            answers = worst.groupby(["operation", "variant"]).apply(_answer)
            found[question] = answers.reindex(found.index).fillna("–")
        shapes = mine.drop_duplicates(["operation", "variant", "rows", "cols", "dtype"])
        found["points"] = shapes.groupby(["operation", "variant"]).size()
        found = found.reset_index()
        order = found.assign(several=found["operation"].str.count("_"),
                             order=found["variant"].map(variant_order))  # fmt: skip
        found = found.loc[order.sort_values(["several", "operation", "order"]).index]
        title = f"The same bits: {card_of(str(gpu)).name}"
        yield f"determinism-{slug(str(gpu))}", table(title, found, [BITS])


def _answer(same: pd.Series) -> str:
    """One cell, of the answers at all points of a variant."""
    wrong = [f"{m}×{n} {dtype}" for _, _, m, n, dtype in same.index[~same]]
    if len(wrong) in (0, len(same)):
        return "no" if wrong else "yes"
    more = f" and {len(wrong) - 4} more" if len(wrong) > 4 else ""
    return f"not at {', '.join(wrong[:4])}{more}"


def cards(inputs: Inputs) -> Named:
    """Every model's bytes at the datasheet bandwidth of each card that ``conf/gpu`` describes."""
    frame = inputs.main
    known = frame["model_bytes"].gt(0) & frame["rows"].gt(0) & frame["cols"].gt(0)
    named = name_variants(frame[known & frame["operation"].isin([OPERATION, "copy"])])
    named = named[named["set"].isin(named.loc[named["operation"] == OPERATION, "set"])]
    if named.empty:
        return
    place = ["variant", "rows", "cols", "dtype"]
    priced = named.groupby(place, as_index=False).agg(bytes=("model_bytes", "max"), **BEHIND)
    shapes = list(zip(priced["rows"], priced["cols"], priced["dtype"], strict=True))
    largest = sorted(set(shapes), key=lambda at: (at[0] * at[1], at))[-2:]
    wanted = [at for at in PRICED if at in shapes] or largest
    priced = priced[[at in wanted for at in shapes]]
    priced["order"] = priced["variant"].map(variant_order)
    priced = priced.sort_values(["rows", "cols", "dtype", "order"])
    for card in known_cards():
        if card.peak_gbps:
            name = f"{card.name}, {card.peak_gbps:,.0f} GB/s"
            priced[name] = [f"{size / card.peak_gbps / 1e3:,.1f}" for size in priced["bytes"]]
    priced.insert(
        1, "M×N", [f"{m}×{n}" for m, n in zip(priced["rows"], priced["cols"], strict=True)]
    )
    priced = priced.drop(columns=["rows", "cols", "bytes", "order"])
    yield "cards", table("The models priced for other cards", priced, [PRICES])


def card_to_card(inputs: Inputs) -> Named:
    """Each card's time over the mean of all, at points that every card of one sweep measured."""
    rows = name_variants(inputs.frame[timed(inputs.frame)])
    sweep = ["set", "gpu", "sweep"]
    place = [*sweep, "operation", "variant", "rows", "cols", "dtype", "timer", "cache"]
    several = rows.groupby(sweep)["card"].transform("nunique") > 1
    if not several.any():
        return
    each = rows[several].groupby([*place, "card"], as_index=False).agg(
        time=("time_us", geometric_mean), low=("time_low_us", "min"), high=("time_high_us", "max"),
        rounds=("round", "nunique"), **BEHIND,
    )  # fmt: skip
    of_sweep = each.groupby(sweep)["card"].transform("nunique")
    each = each[each.groupby(place)["card"].transform("nunique") == of_sweep]
    if each.empty:
        return
    each["mean_us"] = each.groupby(place)["time"].transform(geometric_mean)
    for name, end in (("ratio", "time"), ("ratio_low", "low"), ("ratio_high", "high")):
        each[name] = each[end] / each["mean_us"]
    each["points"] = np.where(
        each["mean_us"] < SHORT_US, f"below {SHORT_US} µs", f"{SHORT_US} µs and more"
    )
    apart = each.groupby([*place, "points"], as_index=False).agg(
        ratio=("ratio", lambda ratio: ratio.max() / ratio.min())
    )
    every = pd.concat([each, apart.assign(card="slowest / fastest")])
    every["card"] = every["card"].astype(str)
    texts = every.groupby([*sweep, "points", "card"])["ratio"].agg(
        count="size", mean=geometric_mean, low=lambda r: r.quantile(0.05),
        high=lambda r: r.quantile(0.95), least="min", most="max",
    ).reset_index()  # fmt: skip
    for name in ("mean", "low", "high", "least", "most"):
        texts[name] = texts[name].map("{:.4f}".format)
    lines = texts.rename(columns={"low": "5 % of points below", "high": "5 % of points above"})
    columns = ["gpu", *place[2:], "card", "rounds", "mean_us", "ratio", "ratio_low", "ratio_high",
               *BEHIND]  # fmt: skip
    title = "Card to card: a card's time over the mean of all"
    yield "card_to_card", table(title, lines, [CARDS], each[columns])
