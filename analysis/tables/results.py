"""Tables of measurements: times, errors, memory, equal bits, cards, traffic."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from analysis.estimate import geometric_mean
from analysis.figures.style import file_name, slug, variant_order
from analysis.figures.traffic import KINDS, PLACE, beside_counts, levels_of
from analysis.format import Cell, Table, joined, number_text, thousands
from analysis.load import Inputs, kernel_name
from analysis.points import LARGE_BYTES
from analysis.published import OPERATION, sources
from analysis.selection import PROTOCOLS, middle_visits, name_variants, one_sweep, records_of
from analysis.tables.frames import (
    BEHIND,
    Named,
    by_shape,
    counts,
    ends,
    ordered,
    protocol,
    several,
    shown_sets,
    table,
    texts,
    timed,
)
from experiments.data.cards import card_of
from experiments.data.rows import ITEM_BYTES
from experiments.data.statistics import unconverged

IRREGULAR = (1823, 781)  # M and N of D's test
MOST_SHAPES = 8  # shown where rows hold none of the sources' own
SHORT_US = 20  # below it launches and the timer's steps have the larger say between cards
LARGE, ABOVE = f"{LARGE_BYTES / 1e6:.0f} MB and more", "of them above"
MACHINE = [
    *("variant", "rows", "cols", "gpu", "dtype", "timer", "cache", "status", "reason", "time_us"),
    *("time_low_us", "time_high_us", "effective_gbps", "roof_gbps", "fraction_of_roof"),
    *("speedup_over_naive", "above_roof"),
]
STATE = {
    "SM clock, MHz": "sm_clock_mhz",
    "memory clock, MHz": "memory_clock_mhz",
    "power, W": "power_w",
    "temperature, °C": "temperature_c",
}
MOVES = [f"{level} {kind}" for level in ("modelled", "counted", "L2", "DRAM") for kind in KINDS]
MOVES.remove("L2 writes")  # which no counter tells apart


def main(inputs: Inputs) -> Named:
    """Time and share of the roof by shape and variant, for each GPU, operation and dtype."""
    frame = inputs.main
    own = frame[timed(frame) & (frame["operation"] != frame["roof"])]
    places = own[["operation", "gpu", "dtype", "set"]].drop_duplicates().to_numpy(object).tolist()
    for operation, gpu, dtype, name in sorted(places, key=lambda at: (at[0] != OPERATION, at)):
        roofs = own.loc[own["operation"] == operation, "roof"].unique()
        mine = frame[frame["operation"].isin([operation, *roofs]) & (frame["set"] == name)]
        rows = mine[(mine["gpu"] == gpu) & (mine["dtype"] == dtype)]
        title = f"Main results: {card_of(gpu).name}, {operation}, {dtype}"
        yield file_name("main", operation, slug(gpu), dtype), _main_table(title, rows, operation)


def _main_table(title: str, rows: pd.DataFrame, operation: str) -> Table:
    """Rows of one GPU and dtype, of one sweep, under the first protocol that figures draw."""
    rows = one_sweep(rows, rows[timed(rows) & (rows["operation"] == operation)])
    good = rows[timed(rows) & (rows["operation"] == operation)]
    known = set(good[["timer", "cache"]].itertuples(index=False, name=None))
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
    cells = [Cell(_cell(row), one) for row, one in zip(records_of(points), strong, strict=True)]
    shown = by_shape(points.assign(text=pd.Series(cells, points.index, dtype=object)))
    failed = points[~points["good"] & points["reason"].notna()]
    times = points[points["good"]]
    late = int(times["stop_reason"].map(unconverged).ne("").sum())
    facts = {"protocol": protocol(timer, cache), "roof": own["roof"].iloc[0]}
    notes = texts("main", late=late, times=len(times), **facts)
    failures = [f"{one['variant']}, {one['status']}: {one['reason']}" for one in records_of(failed)]
    notes += dict.fromkeys(failures)
    data = points[MACHINE].assign(keys=points["key"], recordings=points["recording"])
    return table(title, shown, notes, data)


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
    every = [one for source in sources().values() for one in source.series.values()]
    printed = {(one.rows or size, one.cols or size) for one in every for size in one.sizes}
    printed.add(IRREGULAR)
    found = [shape for shape in present if shape in printed]
    if len(found) > 1:
        return found
    places = np.linspace(0, len(present) - 1, min(len(present), MOST_SHAPES))
    return [present[round(place)] for place in places]


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


def above_roof(inputs: Inputs) -> Named:
    """How many points of each variant are above the roof by more than their interval, and which."""
    frame = shown_sets(inputs)
    own = frame[timed(frame) & frame["roof_gbps"].notna() & (frame["operation"] != frame["roof"])]
    if own.empty:
        return
    alike = ["set", "gpu", "timer", "cache", "variant", "roof"]
    place = [*alike, "compulsory_bytes", "rows", "cols", "dtype"]
    columns = {"share": ("fraction_of_roof", "median"), "above": ("above_roof", "mean")}
    points = name_variants(own).groupby(place, as_index=False).agg(**columns, **BEHIND)
    points["above"] = points["above"] > 0.5
    shape = points["rows"].astype(str) + "×" + points["cols"].astype(str) + " " + points["dtype"]
    share = (100 * points["share"]).map(" {:.1f} %".format)
    large = points["compulsory_bytes"] >= LARGE_BYTES
    shown = points.assign(
        **{LARGE: large, ABOVE: large & points["above"], "which": shape + share},
        points=1,
    )
    shown["which"] = shown["which"].where(points["above"])
    sums = {name: (name, "sum") for name in ("points", "above", LARGE, ABOVE)}
    which = {"which": ("which", lambda texts: "; ".join(texts.dropna()))}
    shown = shown.groupby(alike, as_index=False).agg(**sums, **which)
    title = "Above the roof by more than the interval"
    shown, data = ordered(shown, *alike[:4]), points[points["above"]]
    yield "above_roof", table(title, shown, texts("above_roof"), data)


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
        lines = []
        for (operation, variant), one in mine.groupby(["operation", "variant"]):
            line = {"operation": operation, "variant": variant}
            line["the same at each call"] = _answer(one, "deterministic")
            line["the same in any M"] = _answer(one, "batch_invariant")
            line["points"] = one.groupby(["rows", "cols", "dtype"]).ngroups
            behind = {"keys": joined(one["key"]), "recordings": joined(one["recording"])}
            lines.append(line | behind | {"parts": str(operation).count("_")})
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


def card_to_card(inputs: Inputs) -> Named:
    """Each card's time over the mean of all, at points that every card of one sweep measured."""
    sweep = ["set", "gpu", "sweep"]
    place = [*sweep, "operation", "variant", "rows", "cols", "dtype", "timer", "cache"]
    rows = name_variants(inputs.frame[timed(inputs.frame)])
    rows = rows[rows.groupby(sweep)["card"].transform("nunique") > 1]
    mean = {"time_us": ("time_us", geometric_mean)}
    each = rows.groupby([*place, "card"], as_index=False).agg(**mean, **BEHIND)
    cards = each.groupby(sweep)["card"].transform("nunique")
    each = each[each.groupby(place)["card"].transform("nunique") == cards]
    if each.empty:
        return
    mean_us = each.groupby(place)["time_us"].transform(geometric_mean)
    short = {True: f"below {SHORT_US} µs", False: f"{SHORT_US} µs and more"}
    each = each.assign(ratio=each["time_us"] / mean_us, points=(mean_us < SHORT_US).map(short))
    ratios = each.groupby([*place, "points"])["ratio"]
    apart = (ratios.max() / ratios.min()).reset_index().assign(card="slowest / fastest")
    every = pd.concat([each.astype({"card": str}), apart])
    found = every.groupby([*sweep, "points", "card"])["ratio"]
    shown = found.agg(count="size", mean=geometric_mean, least="min", most="max").reset_index()
    for name in ("mean", "least", "most"):
        shown[name] = shown[name].map("{:.4f}".format)
    title = "Card to card: a card's time over the mean of all"
    yield "card_to_card", table(title, shown, texts("card_to_card"), each)


def environment(inputs: Inputs) -> Named:
    """A line per fact that rows hold, a column per GPU and set."""
    columns = {
        ", ".join(filter(None, [card_of(str(gpu)).name, str(name)])): _facts(rows, str(gpu))
        for (name, gpu), rows in shown_sets(inputs).groupby(["set", "gpu"])
    }
    facts = pd.DataFrame(columns).rename_axis("fact").reset_index()
    yield (
        "environment",
        table("Environment", facts, texts("environment")),
    )


def _facts(rows: pd.DataFrame, gpu: str) -> dict[str, str]:
    good, every = rows[rows["time_us"].notna()], rows["environment"]
    width = (good["time_high_us"] - good["time_low_us"]) / good["time_us"] * 50
    asked = rows["throttled"].dropna()
    hot = asked[asked.map(len) > 0]
    why = f": {several(reason for reasons in hot for reason in reasons)}" if len(hot) else ""
    facts = {"name by its driver": gpu, "card, of its host": several(rows["card"])}
    for name in ("torch", "triton", "cuda", "driver", "python"):
        facts[name] = several(one.get(name) for one in every)
    facts["commit"] = several(map(_commit, every))
    facts |= {f"{name}s": several(rows[name]) for name in ("sweep", "dtype")}
    facts |= {name: several(good[name]) for name in ("timer", "cache")}
    facts["samples per point"] = ends(good["samples_us"].map(len, na_action="ignore"))
    half = f"{number_text(width.median())} in the middle, {number_text(width.max())} at most"
    facts["95 % interval, ± % of the median"] = "" if width.isna().all() else half
    facts["sampling ended by"] = counts(good["stop_reason"])
    facts |= {name: ends(rows[column]) for name, column in STATE.items()}
    throttled = f"{thousands(len(hot))} of {thousands(len(asked))}{why}"
    facts["throttled rows"] = throttled if len(asked) else ""
    return facts | {"rows": thousands(len(rows)), "rows by status": counts(rows["status"])}


def _commit(environment: Mapping[str, object]) -> str:
    commit = environment.get("commit")
    if commit is None:
        return "unknown"
    return f"{str(commit)[:12]} ({'dirty' if environment.get('dirty') else 'clean'})"


def traffic(inputs: Inputs) -> Named:
    """The traffic of the rows' kernels at each level: a line per variant and shape.

    A variant that no counter saw stands at its largest counted shape in each dtype.
    """
    backends = dict(zip(inputs.frame["kernel"], inputs.frame["backend"], strict=True))
    levels = levels_of(inputs.records, backends)
    levels = levels[levels["variant"].map(kernel_name).isin(backends)]
    order = levels.assign(
        any=levels["gpu"].eq(""),
        size=-levels["rows"] * levels["cols"],
        order=levels["variant"].str.replace(",", " ").map(variant_order),
    ).sort_values(["any", "gpu", "dtype", "size", "cols", "order"], kind="stable")
    levels = levels.loc[order.index]
    shown = beside_counts(levels)
    size = shown["units_of_mn"].map(lambda one: "" if pd.isna(one) else f"{one:.3f}")
    shown["text"] = (size + ", " + shown["verdict"]).str.strip(", ")
    shown["what"] = shown["level"] + " " + shown["kind"]
    places = pd.MultiIndex.from_frame(shown[PLACE].drop_duplicates())
    shown = shown.pivot_table("text", PLACE, "what", aggfunc="last", fill_value="")
    shown = shown.reindex(places).reindex(columns=MOVES, fill_value="").reset_index()
    # of those that no machine changes the first, which is the largest
    shown = shown[shown["gpu"].ne("") | ~shown.duplicated(["variant", "dtype"])]
    shown.insert(1, "M×N", shown["rows"].astype(str) + "×" + shown["cols"].astype(str))
    shown = shown.drop(columns=["rows", "cols"]).rename(columns={"gpu": "GPU"})
    shown["GPU"] = shown["GPU"].replace("", "any")
    title = "Traffic: modelled, counted, measured"
    yield "traffic", table(title, shown, texts("traffic"), levels)
