"""The sources' tables and this project's own.

A table is a function of what was read, which gives tables by the names of their files. It is one
entry of `TABLES`. The CSV beside a table has the numbers as they are and, in ``keys`` and
``recordings``, the rows behind each line, which ``python -m analysis trace`` prints.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import sympy

from analysis import points as limit
from analysis.__main__ import finish, only
from analysis.estimate import geometric_mean
from analysis.figures.limits import file_of, times_of
from analysis.figures.style import CACHES, slug, variant_order
from analysis.figures.traffic import (
    KINDS,
    LIBRARY,
    Level,
    counted_beside,
    counted_verdict,
    levels_of,
)
from analysis.format import (
    Cell,
    Table,
    keys_of,
    number_text,
    thousands,
    write_table,
)
from analysis.formula import N, equal, expression
from analysis.load import Inputs, read_inputs
from analysis.points import LARGE_BYTES, PLACE, SHORT_US
from analysis.published import OPERATION, Traffic, sources
from analysis.selection import (
    PROTOCOLS,
    compulsory,
    middle_visits,
    name_variants,
    records_of,
    timer_label,
)
from analysis.worked_example import example_table
from experiments.data.cards import card_of, known_cards
from experiments.data.files import RowsError
from experiments.data.jobs import Declaration
from experiments.data.rows import ITEM_BYTES
from experiments.data.statistics import unconverged

Named = Iterator[tuple[str, Table]]  # the names of files without suffix, and their tables
IRREGULAR = (1823, 781)  # M and N of D's test
# The sources' own points: A and D's width, A's ends, B's long row, C's worked example.
PRICED = ((4096, 1024, "float32"), (4096, 16384, "float32"), (4096, 262144, "float32"),
          (8192, 32000, "float16"))  # fmt: skip
MOST_SHAPES = 8  # shown where rows hold none of the sources' own
POINT = ["operation", "variant", "rows", "cols", "dtype", "timer", "cache"]
MAIN_COLUMNS = [
    "variant", "rows", "cols", "gpu", "dtype", "timer", "cache", "status", "reason", "time_us",
    "time_low_us", "time_high_us", "effective_gbps", "roof_gbps", "fraction_of_roof",
    "speedup_over_naive", "above_roof",
]  # fmt: skip


def sourced(frame: pd.DataFrame, labels: Iterable[Iterable[int]]) -> dict[str, list[str]]:
    """The columns ``keys`` and ``recordings`` of lines that rows with these labels are behind."""
    both = [keys_of(frame, some) for some in labels]
    return {"keys": [keys for keys, _ in both], "recordings": [names for _, names in both]}


def shown_sets(inputs: Inputs) -> pd.DataFrame:
    """All rows of the sets that figures and the tables of limits are drawn from."""
    sets = {*inputs.main["set"], *(found["set"].iloc[0] for found in inputs.points.values())}
    return inputs.frame[inputs.frame["set"].isin(sets)]


def protocol(timer: str, cache: str) -> str:
    """How times were taken, in words."""
    return f"{timer_label(timer)}, {CACHES.get(cache, cache)}"


def timed(rows: pd.DataFrame) -> pd.Series:
    """Which rows have a time of a known protocol that means something."""
    good = (rows["status"] == "ok") & rows["time_us"].gt(0) & (rows["backend"] != "interpreter")
    good &= rows["rows"].gt(0) & rows["cols"].gt(0)
    return good & rows["timer"].notna() & rows["cache"].notna()


# Times by shape and variant.


def main(inputs: Inputs) -> Named:
    """The time and the share of the roof by shape and variant, for each GPU, operation and dtype."""
    frame = inputs.main
    own = frame[timed(frame) & (frame["operation"] != frame["roof"])]
    operations = sorted(own.groupby(["operation", "gpu", "dtype", "set"]).groups,
                        key=lambda place: (place[0] != OPERATION, place))  # fmt: skip
    for operation, gpu, dtype, name in operations:
        roofs = own.loc[own["operation"] == operation, "roof"].unique()
        mine = frame[frame["operation"].isin([operation, *roofs]) & (frame["set"] == name)]
        mine = mine[(mine["gpu"] == gpu) & (mine["dtype"] == dtype)]
        other = [operation] * (operation != OPERATION)
        stem = "-".join(["main", *map(slug, other), slug(gpu), dtype])
        yield stem, _main_table(mine, operation, [card_of(gpu).name, *other, dtype])


def _main_table(rows: pd.DataFrame, operation: str, place: list[str]) -> Table:
    """Rows of one GPU and dtype under the first of their protocols that figures draw."""
    own = rows["operation"] == operation
    first = rows[timed(rows) & own]
    timer, cache = min(set(zip(first["timer"], first["cache"], strict=True)),
                       key=lambda p: (PROTOCOLS.index(p) if p in PROTOCOLS else 9, p))  # fmt: skip
    alike = (rows["timer"] == timer) & (rows["cache"] == cache)
    rows = name_variants(rows[alike | ~timed(rows)])
    at = [rows[(rows["rows"] == m) & (rows["cols"] == n)] for m, n in key_shapes(rows[own])]
    points = pd.concat([middle_visits(one, "cols") for one in at], ignore_index=True)
    good = timed(points)
    points = points.assign(
        good=good, best=good & ~points["above_roof"] & (points["operation"] == operation)
    )
    variants = sorted(points["variant"].unique(), key=variant_order)
    notes: dict[str, None] = {}
    lines = []
    for (m, n), point in points.groupby(["rows", "cols"]):
        fastest = point.loc[point["best"], "time_us"].min()
        cells = {}
        for row in records_of(point):
            cells[row["variant"]] = Cell(
                _main_cell(row), strong=row["best"] and row["time_us"] == fastest
            )
            if not row["good"] and isinstance(row["reason"], str):
                notes[f"{row['variant']}, {row['status']}: {row['reason']}"] = None
        lines.append([f"{m}×{n}", *(cells.get(name, "–") for name in variants)])
    lines += _aggregates(points, variants)
    ended = points.loc[good, "stop_reason"].map(unconverged)
    moved = compulsory(rows[own])
    notes_of_all = [
        f"Median time in µs ({protocol(timer, cache)}) and, in brackets, the share of the bandwidth of the "
        f"fastest {rows.loc[own, 'roof'].iloc[0]} of the same shape{f', for {moved} bytes' if moved else ''}. "
        "Bold: the fastest. !: above the roof by more than its interval, and no win.",
        "Last lines: shapes at which every variant has a time and none is above the roof.",
        f"{int((ended != '').sum())} of {len(ended)} times stopped before they were as precise as "
        "asked. The CSV has intervals, bandwidths and speedups.",
    ]
    data = points[MAIN_COLUMNS].assign(keys=points["key"], recordings=points["recording"])
    title = f"Main results: {', '.join(place)}"
    return Table(title, ["M×N", *variants], lines, [*notes_of_all, *notes], data)


def _main_cell(row: Mapping[str, Any]) -> str:
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
        fixed = series.rows if series.over == "cols" else series.cols
        if fixed is not None:
            places = (
                (fixed, size) if series.over == "cols" else (size, fixed) for size in series.sizes
            )
            printed |= set(places)
    found = [shape for shape in present if shape in printed]
    if len(found) > 1:
        return found
    places = np.linspace(0, len(present) - 1, min(len(present), MOST_SHAPES))
    return [present[round(place)] for place in places]


def _aggregates(points: pd.DataFrame, variants: Sequence[str]) -> list[list[str]]:
    """Lines over the shapes at which every variant has a valid time; none if there are not two.

    Never a mean of GB/s: that would weigh a short call as much as a long one. A variant that was
    tried at half of the shapes or fewer stands aside.
    """
    tries, shapes = points["variant"].value_counts(), points.groupby(["rows", "cols"]).ngroups
    tried = [v for v in variants if tries[v] * 2 > shapes]
    valid = points[points["good"] & ~points["above_roof"]].drop_duplicates(
        ["rows", "cols", "variant"]
    )
    size, times = (
        valid.pivot(index=["rows", "cols"], columns="variant", values=name)
        .reindex(columns=tried)
        .dropna()
        for name in ("compulsory_bytes", "time_us")
    )
    if len(times) < 2 or len(size) < 2:
        return []
    speeds = size.sum() / times.sum() / 1e3
    lines = [[f"{len(times)} shapes, GB/s", *(number_text(speeds.get(v)) for v in variants)]]
    if "naive" in tried:
        ratios = times.rdiv(times["naive"], axis=0).agg(geometric_mean)
        lines.append(["× naive", *(number_text(ratios.get(v)) for v in variants)])
    return lines


def d_test(inputs: Inputs) -> Named:
    """How far each variant is from float64 at D's irregular shape, by GPU and dtype."""
    frame, (m, n) = inputs.main, IRREGULAR
    rows = frame[(frame["rows"] == m) & (frame["cols"] == n) & (frame["operation"] == OPERATION)]
    if rows.empty:
        return
    # of several visits one that failed, else the one with the largest error
    worst = name_variants(rows).assign(fine=rows["status"] == "ok").sort_values(
        ["fine", "max_abs_error"], ascending=[True, False], na_position="last", kind="stable"
    ).drop_duplicates(["gpu", "dtype", "variant"])  # fmt: skip
    worst = worst.assign(order=worst["variant"].map(variant_order)).sort_values(
        ["gpu", "dtype", "order"]
    )
    columns = ["gpu", "dtype", "variant", "status", "reason", "max_abs_error", "relative_error"]
    lines = []
    for *place, status, reason, absolute, relative in worst[columns].itertuples(index=False):
        errors = ["–" if pd.isna(error) else f"{error:.2e}" for error in (absolute, relative)]
        lines.append([*place, status if pd.isna(reason) else f"{status}: {reason}", *errors])
    heads = ["GPU", "dtype", "variant", "status", "max abs error", "relative error"]
    note = (
        "Errors against float64: the largest absolute one, and ‖y − ref‖ / ‖ref‖; of several visits "
        "the worst. A row is ok where every element and every row sum is within the tolerance of its "
        "dtype."
    )
    data = worst[columns].assign(keys=worst["key"], recordings=worst["recording"])
    yield "d_test", Table(f"D-test: correctness at {m}×{n}", heads, lines, [note], data)


def above_roof(inputs: Inputs) -> Named:
    """How many points of each variant are above the roof by more than their interval, and which."""
    frame = shown_sets(inputs)
    own = frame[timed(frame) & frame["roof_gbps"].notna() & (frame["operation"] != frame["roof"])]
    if own.empty:
        return
    alike = ["set", "gpu", "timer", "cache", "variant", "roof"]
    place = [*alike, "compulsory_bytes", "rows", "cols", "dtype"]
    points = name_variants(own).groupby(place, as_index=False).agg(
        share=("fraction_of_roof", "median"), above=("above_roof", "mean"),
        keys=("key", lambda keys: " ".join(sorted(set(keys)))),
        recordings=("recording", lambda names: " ".join(sorted(set(names)))),
    )  # fmt: skip
    points["above"] = points["above"] > 0.5
    points["large"] = points["compulsory_bytes"] >= LARGE_BYTES
    lines = []
    for (name, gpu, timer, cache, variant, roof), mine in points.groupby(alike):
        high = mine[mine["above"]]
        which = [f"{r['rows']}×{r['cols']} {r['dtype']} {100 * r['share']:.1f} %"
                 for r in records_of(high.iloc[::-1])]  # fmt: skip
        counts = len(mine), len(high), int(mine["large"].sum()), int(high["large"].sum())
        lines.append([name or "–", card_of(gpu).name, protocol(timer, cache), variant, roof,
                      *map(str, counts), "; ".join(which) or "–"])  # fmt: skip
    lines.sort(key=lambda line: (*line[:3], variant_order(line[3])))
    heads = ["set", "GPU", "timer", "variant", "roof", "points", "above",
             f"{LARGE_BYTES / 1e6:.0f} MB and more", "of them above", "which"]  # fmt: skip
    note = (
        "A point is a shape and dtype under one protocol. It is above its roof where most of its "
        "visits are, by more than their interval. Its share is the median of its visits. Roof: the "
        "operation whose fastest row is 100 %."
    )
    title = "Above the roof by more than the interval"
    yield "above_roof", Table(title, heads, lines, [note], points[points["above"]])


def memory(inputs: Inputs) -> Named:
    """The most memory that a call had beyond its inputs, in matrices of M×N elements."""
    frame = inputs.main
    known = frame[
        frame["peak_bytes"].notna()
        & (frame["status"] == "ok")
        & (frame["operation"] != frame["roof"])
    ]
    known = name_variants(known[known["rows"].gt(0) & known["cols"].gt(0)])
    note = (
        "In units of one M×N matrix of the dtype, the output included: 1 is a result of its own and "
        "nothing beside it. 0.00: less than half a hundredth of a matrix; the CSV has the bytes. A "
        "dash: the kernel has no row there. Of several visits the most."
    )
    for (gpu, operation, dtype), rows in known.groupby(["gpu", "operation", "dtype"]):
        place = ["rows", "cols", "variant"]
        peaks = rows.groupby(place, as_index=False).agg(
            peak_bytes=("peak_bytes", "max"), keys=("key", lambda keys: " ".join(sorted(set(keys)))),
            recordings=("recording", lambda names: " ".join(sorted(set(names)))),
        )  # fmt: skip
        peaks.insert(
            4, "matrices", peaks["peak_bytes"] / (peaks["rows"] * peaks["cols"] * ITEM_BYTES[dtype])
        )
        wide = peaks.pivot(index=["rows", "cols"], columns="variant", values="matrices")
        wide = wide[sorted(wide.columns, key=variant_order)]
        lines = [
            [f"{m}×{n}", *(number_text(value, 2) for value in values)]
            for (m, n), *values in wide.itertuples()
        ]
        title = f"Peak memory beyond the inputs: {', '.join([card_of(gpu).name, operation, dtype])}"
        stem = "-".join(["memory", slug(operation), slug(gpu), dtype])
        yield stem, Table(title, ["M×N", *wide.columns], lines, [note], peaks)


def determinism(inputs: Inputs) -> Named:
    """Whose answers are always the same bits, at each call and for a row in any M: yes, or where not."""
    questions = {"deterministic": "the same at each call", "batch_invariant": "the same in any M"}
    rows = name_variants(inputs.frame[inputs.frame["deterministic"].notna()])
    note = (
        "The same at each call: six calls on the same inputs give the same bits. The same in any M: "
        "the first row, the last eight and the middle half, each given alone, have the bits that "
        "they have among all rows; a kernel whose calls differ has none of that. A dash: not to be "
        "judged, with one row alone."
    )
    for gpu, mine in rows.groupby("gpu"):
        lines, labels = [], []
        for (operation, variant), own in mine.groupby(["operation", "variant"]):
            points = own.groupby(["rows", "cols", "dtype"])
            answers = [_answer(points[name].agg(_worst)) for name in questions]
            lines.append([str(operation), str(variant), *answers, str(points.ngroups)])
            labels.append(own.index)
        order = sorted(range(len(lines)), key=lambda i: (
            lines[i][0].count("_"), variant_order(lines[i][1]), lines[i]))  # fmt: skip
        lines, labels = [lines[i] for i in order], [labels[i] for i in order]
        heads = ["operation", "variant", *questions.values(), "points"]
        data = pd.DataFrame(lines, columns=heads).assign(**sourced(rows, labels))
        title = f"The same bits: {card_of(str(gpu)).name}"
        yield f"determinism-{slug(str(gpu))}", Table(title, heads, lines, [note], data)


def _worst(answers: pd.Series) -> bool | None:
    """Of several visits: no, if one says so."""
    known = answers.dropna().astype(bool)
    return bool(known.all()) if len(known) else None


def _answer(points: pd.Series) -> str:
    """One cell, of the answers at all points."""
    judged = points.dropna().astype(bool)
    wrong = [f"{m}×{n} {dtype}" for (m, n, dtype), answer in judged.items() if not answer]
    if not len(judged):
        return "–"
    if not wrong or len(wrong) == len(judged):
        return "no" if wrong else "yes"
    more = f" and {len(wrong) - 4} more" if len(wrong) > 4 else ""
    return f"not at {', '.join(wrong[:4])}{more}"


# How near our kernel is to the limit, and how far cards lie apart.


LARGE = f"{LARGE_BYTES / 1e6:.0f} MB"
PARTS: Mapping[str, Callable[[pd.DataFrame], pd.Series]] = {  # the headline first
    f"{LARGE} and more": lambda lines: lines["bytes"] >= LARGE_BYTES,
    "1 GB and more": lambda lines: lines["bytes"] >= 1e9,
    f"16 MB to {LARGE}": lambda lines: (lines["bytes"] >= 16e6) & (lines["bytes"] < LARGE_BYTES),
    "below 16 MB": lambda lines: lines["bytes"] < 16e6,
    "M above 4096": lambda lines: lines["rows"] > 4096,
    "M from 65 to 4096": lambda lines: lines["rows"].between(65, 4096),
    "M up to 64": lambda lines: lines["rows"] <= 64,
    f"below {SHORT_US:g} µs": lambda lines: lines["short"],
    "all": lambda lines: lines["rows"] >= 0,
}
PRINTED = (f"{LARGE} and more", f"16 MB to {LARGE}", "below 16 MB", "all")  # the CSV has all


def widths_of(found: pd.DataFrame) -> str:
    """Whether `auto` was tuned at the widths of a group of points; only softmax knows others."""
    if found["operation"].iloc[0] != OPERATION:
        return "all"
    return "tuned" if found["tuned"].iloc[0] else "held out"


def limits(inputs: Inputs) -> Named:
    """At every shape each public kernel's time, ours and the roof's, softmax first."""
    for found in inputs.points.values():
        failures = limit.failures(inputs.frame, found)
        for group in limit.groups(found):
            yield file_of("limits", group), _limits_table(inputs.frame, group, failures)


def _limits_table(
    frame: pd.DataFrame, group: pd.DataFrame, failures: Mapping[tuple[Any, ...], Mapping[str, str]]
) -> Table:
    first, lines = group.iloc[0], limit.ratios(group).set_index(PLACE)
    own = lines["own"].iloc[0]
    times = group.groupby([*PLACE, "kernel"])["us"].agg(geometric_mean).unstack("kernel")
    ours = times_of(group[group["kernel"] == own]).set_index(PLACE).reindex(lines.index)
    launches = (
        group[group["kernel"] == own].drop_duplicates(PLACE).set_index(PLACE)[["programs", "warps"]]
    )
    places = [lines.index.get_level_values(name) for name in ("gpu", "rows", "cols", "dtype")]
    failed = [failures.get(place, {}) for place in zip(*places, strict=True)]
    role = group.drop_duplicates("kernel").set_index("kernel")["role"]
    peers = {
        *times.columns[times.columns.map(role) == "peer"],
        *(one for some in failed for one in some),
    }
    copies = sorted(times.columns[times.columns.map(role) == "roof"], key=variant_order)
    names = [*copies, *sorted(peers, key=limit.peer_order)]
    ended = group.assign(why=group["stop_reason"].map(unconverged))
    late = ended[ended["why"] != ""].groupby(PLACE)[["kernel", "why"]].agg(
        lambda column: "; ".join(dict.fromkeys(column))).reindex(lines.index)  # fmt: skip
    compared = {"best": lines, "torch": limit.ratios(group, "torch"),
                "roof": limit.shares(group).assign(ratio=lambda one: one["share"])}  # fmt: skip
    data = pd.DataFrame({
        "tuned": first["tuned"], "moved_bytes": lines["bytes"], "rounds": ours["rounds"],
        **{f"{name}_us": times.get(name) for name in [*names, own]},
        f"{own}_low_us": ours["low"], f"{own}_high_us": ours["high"],
        "launch": [f"{p:.0f}×{w:.0f}" if p == p and w == w else "–"
                   for p, w in launches.reindex(lines.index).to_numpy(float)],
        "best_peer": lines["kernel"],
    }, index=lines.index)  # fmt: skip
    for name, one in compared.items():
        ends = one if one.index.names == PLACE else one.set_index(PLACE)
        for end in ("ratio", "low", "high"):
            data[f"{name}_{end}"] = ends[end].reindex(lines.index)
    data = data.assign(
        above_roof=lines["above_roof"],
        unconverged=(late["kernel"] + " " + late["why"]).fillna(""),
        failed=["; ".join(f"{name}: {status}" for name, status in one.items()) for one in failed],
        **sourced(frame, lines["labels"]),
    ).reset_index()
    cells = [
        _limits_line(row, one, names, own, bool(short))
        for row, one, short in zip(records_of(data), failed, lines["short"], strict=True)
    ]
    other = [first["operation"]] * (first["operation"] != OPERATION)
    where = [*other, card_of(first["gpu"]).name, protocol(first["timer"], first["cache"]),
             f"{widths_of(group)} widths"]  # fmt: skip
    heads = ["M×N", "dtype", "MB", *names, own, "fastest public", "× fastest public", "95 %", "× torch",
             "of roof"]  # fmt: skip
    notes = [
        "Times in µs, geometric means of the rounds' medians. Bold: the fastest that computes. × "
        f"fastest public, × torch: its time over that of {own} in the same round, with its 95 % "
        "interval. MB: what any kernel of the operation moves. Of roof: the time of the fastest "
        f"kernel that only moves over that of {own}, for equal bytes; where arithmetic alone takes "
        "longer, the time of that.",
        f"~ below {SHORT_US:g} µs, where timers step by half a microsecond. ! above the roof by more "
        "than its interval: no win. A word in place of a time says why there is none.",
        f"Of {len(ended):,} rows {int((ended['why'] != '').sum()):,} stopped before they were as "
        "precise as asked; the CSV names them.",
    ]
    return Table(f"At the limit: {', '.join(where)}", heads, cells, notes, data)


def _limits_line(
    row: Mapping[str, Any], failed: Mapping[str, str], names: Sequence[str], own: str, short: bool
) -> list[str]:
    """The numbers of a place as text."""
    times = {name: row[f"{name}_us"] for name in [*names, own]}
    fastest = min(
        us for name, us in times.items() if us == us and not name.startswith(limit.COPIES)
    )
    cells = [failed.get(name) or Cell(number_text(us), us == fastest) for name, us in times.items()]
    share = "–" if row["roof_ratio"] != row["roof_ratio"] else f"{100 * row['roof_ratio']:.1f} %"
    return [
        f"{row['rows']}×{row['cols']}", row["dtype"], number_text(row["moved_bytes"] / 1e6), *cells,
        row["best_peer"], f"{row['best_ratio']:.3f}{'~' * short}",
        f"{row['best_low']:.3f}–{row['best_high']:.3f}", number_text(row["torch_ratio"], 2),
        f"{share}{'!' * row['above_roof']}",
    ]  # fmt: skip


def limits_summary(inputs: Inputs) -> Named:
    """The same in few numbers: the large shapes first, all of them last."""
    for operation, found in inputs.points.items():
        lines, data = [], []
        for text, inside in PARTS.items():
            for group in limit.groups(found):
                ratios = limit.ratios(group)
                part = ratios[inside(ratios)]
                if len(part):
                    points = group.merge(part[PLACE], on=PLACE)
                    one = _summary(points, part)
                    data.append({"part": text, **one, **_one_source(inputs.frame, part)})
                    if text in PRINTED:
                        lines.append(_summary_line(text, data[-1], part))
        heads = ["matrices", "timer", "widths", "shapes", "× fastest public", "interval over", "behind",
                 "share of the roof"]  # fmt: skip
        own, names = (
            ratios["own"].iloc[0],
            sorted(found.loc[found["role"] == "peer", "kernel"].unique(), key=limit.peer_order),
        )
        failed = {f"{name} {status} at {m}×{n} {dtype}": None
                  for (_, m, n, dtype), one in limit.failures(inputs.frame, found).items()
                  for name, status in one.items()}  # fmt: skip
        notes = [
            f"× fastest public: how many times as long the fastest public kernel takes as {own}, as a "
            "geometric mean over the shapes, with a 95 % interval. Interval over: what repeated: "
            "recordings on other days and hosts, or widths. Behind: shapes at which the whole "
            f"interval says that {own} is slower, and by how much. Share of the roof: the median of "
            "the shapes, and the least. A time above the roof counts as the roof's. The CSV has more "
            "parts and numbers.",
            f"Public kernels measured: {', '.join(names)}. Not measured: {limit.ELSEWHERE}.",
            *[f"Without a time, and so not among the public ones there: {'; '.join(failed)}."]
            * bool(failed),
        ]
        if operation == OPERATION:
            notes.insert(1, f"Tuned: widths of the grids {', '.join(limit.TUNED)}, on which {own} was tuned; "
                            "all others are held out.")  # fmt: skip
        other = [slug(operation)] * (operation != OPERATION)
        title = f"At the limit, in short: {operation}"
        yield (
            "-".join(["limits_summary", *other]),
            Table(title, heads, lines, notes, pd.DataFrame(data)),
        )


def _one_source(frame: pd.DataFrame, part: pd.DataFrame) -> dict[str, str]:
    keys, recordings = keys_of(frame, {label for labels in part["labels"] for label in labels})
    return {"keys": keys, "recordings": recordings}


def _summary(points: pd.DataFrame, part: pd.DataFrame) -> dict[str, Any]:
    """The numbers of some places of one group."""
    first = points.iloc[0]
    best, summed, torch = (
        limit.geomean(points),
        limit.summed(points),
        limit.geomean(points, "torch"),
    )
    shares, behind, least = (
        limit.shares(points),
        limit.behind(part),
        part.loc[part["ratio"].idxmin()],
    )
    assert best
    assert summed
    means = {"best": best, "torch": torch}
    worst = shares.loc[shares["share"].idxmin()] if len(shares) else None
    return {
        **{name: first[name] for name in ("gpu", "timer", "cache")},
        "widths": widths_of(points), "count": len(part),
        **{f"{name}_{end}": getattr(mean, end, np.nan) for name, mean in means.items()
           for end in ("value", "low", "high")},
        "units": best.units, "recordings_low": (best.spread or (np.nan,))[0],
        "recordings_high": (best.spread or (np.nan,))[-1], "summed": summed.value,
        "gap_us": part["gap_us"].median(), "least": least["ratio"], "least_at": least["name"],
        "least_peer": least["kernel"], "behind": len(behind),
        "behind_most": 1 - behind["ratio"].min() if len(behind) else np.nan,
        "behind_least": 1 - behind["ratio"].max() if len(behind) else np.nan,
        "share": shares["share"].median() if len(shares) else np.nan,
        "share_least": np.nan if worst is None else worst["share"],
        "share_least_at": "" if worst is None else worst["name"],
    }  # fmt: skip


def _summary_line(text: str, one: Mapping[str, Any], part: pd.DataFrame) -> list[str]:
    behind = str(one["behind"])
    if one["behind"]:
        least, most = f"{100 * one['behind_least']:.1f}", f"{100 * one['behind_most']:.1f}"
        behind += f", by {most} %" if one["behind"] == 1 else f", by {least} to {most} %"
    share = f"{100 * one['share']:.1f} % (least {100 * one['share_least']:.1f} %)"
    return [
        text, timer_label(one["timer"]), one["widths"], str(one["count"]),
        f"{one['best_value']:.3f} ({one['best_low']:.3f}–{one['best_high']:.3f})", one["units"],
        behind, "–" if pd.isna(one["share"]) else share,
    ]  # fmt: skip


def card_to_card(inputs: Inputs) -> Named:
    """Each card's time over the mean of all, at points that every card of one sweep measured."""
    rows = name_variants(inputs.frame[timed(inputs.frame)])
    cards = rows.groupby("sweep")["card"].transform("nunique")
    place = ["set", "gpu", "sweep", *POINT]
    each = rows[cards > 1].groupby([*place, "card"], as_index=False).agg(
        time=("time_us", geometric_mean), low=("time_low_us", "min"), high=("time_high_us", "max"),
        rounds=("round", "nunique"), all_cards=("card", "size"),
        keys=("key", lambda keys: " ".join(sorted(set(keys)))),
        recordings=("recording", lambda names: " ".join(sorted(set(names)))),
    )  # fmt: skip
    known = each.groupby(["set", "gpu", "sweep"])["card"].transform("nunique")
    each = each[each.groupby(place)["card"].transform("nunique") == known]
    if each.empty:
        return
    each["mean_us"] = each.groupby(place)["time"].transform(geometric_mean)
    for name, end in (("ratio", "time"), ("ratio_low", "low"), ("ratio_high", "high")):
        each[name] = each[end] / each["mean_us"]
    each["part"] = np.where(each["mean_us"] < 20, "below 20 µs", "20 µs and more")
    each["at"] = [f"{r['variant']} {r['rows']}×{r['cols']} {r['dtype']}" for r in records_of(each)]
    spread = each.groupby([*place, "part", "at"], as_index=False)["ratio"].agg(
        lambda r: r.max() / r.min()
    )
    every = pd.concat([each, spread.assign(card="slowest / fastest")])
    lines = []
    for (_, gpu, sweep, part, card), mine in every.groupby(
        ["set", "gpu", "sweep", "part", "card"], sort=False
    ):
        low, high = mine["ratio"].quantile([0.05, 0.95])
        numbers = [
            geometric_mean(mine["ratio"]),
            low,
            high,
            mine["ratio"].min(),
            mine["ratio"].max(),
        ]
        mean, low, high, least, most = (f"{number:.4f}" for number in numbers)
        worst = mine.loc[mine["ratio"] == mine["ratio"].max(), "at"].iloc[0]
        lines.append([card_of(gpu).name, sweep, part, thousands(len(mine)), str(card), mean,
                      f"{low}–{high}", least, most, worst])  # fmt: skip
    heads = ["GPU", "sweep", "points", "count", "card", "mean", "5 % to 95 % of points", "least", "most",
             "most at"]  # fmt: skip
    note = (
        "Points that every card measured, in one sweep. The mean is over cards and geometric, and so "
        "is that over points. A card is named by its index on its host."
    )
    columns = ["gpu", "sweep", *POINT, "card", "rounds", "mean_us", "ratio", "ratio_low", "ratio_high",
               "keys", "recordings"]  # fmt: skip
    title = "Card to card: a card's time over the mean of all"
    yield (
        "card_to_card",
        Table(title, heads, sorted(lines, key=lambda line: line[:2]), [note], each[columns]),
    )


# What variants declare, beside what the sources print and what was seen.


def _approaches(
    inputs: Inputs, place: str
) -> Iterator[tuple[str, Declaration | None, Traffic | None]]:
    """What a source prints at ``place``, declared or not, then all other variants."""
    declared = {k: d for k, d in inputs.declarations.items() if d.operation == OPERATION}
    statements = [t for source in sources().values() for t in source.traffic]
    printed = {statement.kernel: statement for statement in statements if statement.at == place}
    others = sorted(declared.keys() - printed, key=lambda k: variant_order(k.replace(",", " ")))
    for label in [*printed, *others] if declared else []:
        yield label, declared.get(label), printed.get(label)


def a_tab1(inputs: Inputs) -> Named:
    """Reads, writes and total: A's two approaches first, then all other variants."""
    lines = []
    for label, ours, they in _approaches(inputs, "A-tab1"):
        declared = [ours.reads, ours.writes, ours.formula] if ours else ["–"] * 3
        printed = [they.reads, they.writes, they.total] if they else [None] * 3
        same = _same(declared, printed) if ours else "not declared"
        counts = [c for c in inputs.records.counts if c.kernel == label]
        of_this = [c for c in counts if ours is None or c.source == ours.source]
        verdicts = dict.fromkeys(
            (c.reason or "not countable").split(":")[0] if c.method == "none" else counted_verdict(kind, c)
            for c in of_this for kind in KINDS
        )  # fmt: skip
        counted = (
            f"{'; '.join(verdicts)} ({len(of_this)} counts)"
            if of_this
            else "other code was counted"
        )
        lines.append(
            [label, *declared, *(text or "–" for text in printed), same, counted if counts else "–"]
        )
    heads = [
        "approach",
        "reads",
        "writes",
        "total",
        "A: reads",
        "A: writes",
        "A: total",
        "equal",
        "counted",
    ]
    notes = [
        "Elements. Declared: what each kernel declared when its rows were made. Formulas are compared "
        "as polynomials.",
        "Counted: the requests of one call, executed and instrumented, against the declared formula; "
        "nominal where a library's own kernel is assumed to read and write once.",
    ]
    yield "a_tab1", Table("A-tab1: memory traffic by approach", heads, lines, notes)


def b_tab1(inputs: Inputs) -> Named:
    """Reads, on-chip memory and wide rows: B's three approaches first, then all others."""
    own = name_variants(inputs.main[inputs.main["operation"] == OPERATION])
    seen, dtype = (
        own.assign(label=own["variant"].astype(str).str.replace(" ", ",")),
        sources()["B"].dtype,
    )
    lines = []
    for label, ours, they in _approaches(inputs, "B-tab1"):
        declared = [ours.reads, _order(ours), _any_width(ours)] if ours else ["–"] * 3
        wide = None if they is None or they.any_width is None else _yes(they.any_width)
        printed = [they.reads, they.on_chip, wide] if they else [None] * 3
        same = _same(declared, printed, formulas=1) if ours else "not declared"
        texts = [text or "–" for text in printed]
        lines.append([label, *declared, *texts, same, _widths(seen, label, dtype)])
    heads = ["approach", "reads", "on chip per row", "any N", "B: reads", "B: on chip", "B: any N",
             "equal", f"widths in rows, {dtype}"]  # fmt: skip
    note = (
        "On chip: O(N) where the declared elements per row grow with N, O(B) where they are the block "
        "size, else O(1). A variant takes any N unless what it holds on chip grows with N; "
        "nominally, where the library decides that itself."
    )
    yield "b_tab1", Table("B-tab1: on-chip memory and wide rows by approach", heads, lines, [note])


def _same(declared: Sequence[str], printed: Sequence[str | None], formulas: int = 3) -> str:
    """``yes`` where all that is printed is what is declared, the first as polynomials."""
    pairs = [(ours, they) for ours, they in zip(declared, printed, strict=True) if they]
    if not pairs:
        return "–"
    try:
        polynomials = [equal(ours, they) for ours, they in pairs[:formulas]]
    except ValueError:
        return "not comparable"
    return _yes(all(polynomials) and all(ours == they for ours, they in pairs[formulas:]))


def _widths(seen: pd.DataFrame, label: str, dtype: str) -> str:
    """A sentence per GPU: the widest N that ran, and the narrowest that did not, with its reason.

    Rows of ``dtype`` count; where there are none, those of all others do, by name.
    """
    mine = seen[seen["label"].eq(label) | seen["kernel"].eq(label)]
    own = mine[mine["dtype"] == dtype]
    if mine.empty:
        return "–"
    if own.empty:
        return "; ".join(
            f"{other}: {_widths(mine, label, other)}" for other in sorted(set(mine["dtype"]))
        )
    by_gpu = {gpu: _widest(rows) for gpu, rows in own.groupby("gpu")}
    if len(set(by_gpu.values())) == 1:
        return next(iter(by_gpu.values()))
    return "; ".join(f"{gpu}: {sentence}" for gpu, sentence in by_gpu.items())


def _widest(rows: pd.DataFrame) -> str:
    ran = rows[rows["status"] == "ok"]
    stopped = rows[rows["status"] != "ok"].sort_values("cols", kind="stable")
    widest = f"ran to N = {thousands(ran['cols'].max())}" if len(ran) else "ran nowhere"
    if stopped.empty:
        return f"{widest}, the widest tried"
    first = stopped.iloc[0]
    why = f": {first['reason']}" if isinstance(first["reason"], str) else ""
    return f"{widest}; {first['status']} at {thousands(first['cols'])}{why}"


def _order(declared: Declaration) -> str:
    try:
        held = expression(declared.on_chip)
    except ValueError:
        return declared.on_chip
    if isinstance(held, sympy.Piecewise):  # what counts is how it ends, at the widest rows
        held = held.args[-1].expr
    if N in held.free_symbols:
        return "O(N)"
    return "O(B)" if held == declared.params.get("block_size") else "O(1)"


def _any_width(declared: Declaration) -> str:
    grows = _order(declared) == "O(N)"
    return f"{'nominally ' if grows and declared.backend in LIBRARY else ''}{_yes(not grows)}"


def _yes(answer: bool) -> str:
    return "yes" if answer else "no"


def c_ex(inputs: Inputs) -> Named:
    """C's worked example beside what the kernel itself computed."""
    table = example_table(inputs)
    if table is not None:
        yield "c_ex", table


def traffic(inputs: Inputs) -> Named:
    """What each variant of the rows moves: modelled, counted, L2, DRAM; a line per variant and shape."""
    backends = dict(zip(inputs.frame["kernel"], inputs.frame["backend"], strict=True))
    seen = [
        one for one in levels_of(inputs.records, backends) if one.variant.split(",")[0] in backends
    ]
    columns = [("modelled", "reads"), ("modelled", "writes"), ("counted", "reads"), ("counted", "writes"),
               ("L2", "reads"), ("DRAM", "reads"), ("DRAM", "writes")]  # fmt: skip
    by_place: dict[tuple[Any, ...], dict[tuple[str, str], Level]] = defaultdict(dict)
    for one in seen:
        by_place[one[:5]][one.level, one.kind] = one
    measured = {place for place in by_place if place[4]}
    known = {(variant, dtype) for variant, _, _, dtype, _ in measured}
    counted = sorted(set(by_place) - measured, key=lambda p: (-p[1] * p[2], str(p)))
    # of the others the largest counted shape in each dtype
    largest = {(p[0], p[3]): p for p in reversed(counted) if (p[0], p[3]) not in known}

    def order(p: tuple[Any, ...]) -> tuple[Any, ...]:
        return not p[4], p[4], p[3], -p[1] * p[2], p[2], variant_order(p[0].replace(",", " "))

    lines = []
    for place in sorted(measured | set(largest.values()), key=order):
        mine = by_place[place]
        for kind in KINDS:
            if beside := counted_beside(seen, mine["modelled", kind]):
                mine["counted", kind] = beside
        variant, m, n, dtype, gpu = place
        lines.append(
            [variant, f"{m}×{n}", dtype, gpu or "any", *(_level_text(mine.get(c)) for c in columns)]
        )
    heads = ["variant", "M×N", "dtype", "GPU", *(f"{level} {kind}" for level, kind in columns)]
    data = pd.DataFrame([
        {**dict(zip(("variant", "rows", "cols", "dtype", "gpu", "level", "kind"), one, strict=False)),
         "units_of_mn": None if one.size is None else one.size / one.matrix, "bytes": one.size,
         "model_bytes": one.model, "verdict": one.verdict}
        for one in sorted(seen, key=lambda one: (order(one[:5]), columns.index((one.level, one.kind))))
    ])  # fmt: skip
    notes = [
        "In units of MN elements, then whether it agrees with the model within 1 %, or why not. The CSV "
        "has the bytes.",
        "Counted is at the counted shape of the same case nearest in size; counting takes small ones. "
        "Nominal: each operation of PyTorch reads its inputs and writes its outputs once; what its "
        "kernels request was not counted. DRAM is judged on its reads: its writes lag, as the last "
        "lines are still dirty in L2 when a kernel ends.",
    ]
    if lines:
        yield "traffic", Table("Traffic: modelled, counted, measured", heads, lines, notes, data)


def _level_text(one: Level | None) -> str:
    if one is None or one.size is None:
        return one.verdict if one else "–"
    return ", ".join(filter(None, [f"{one.size / one.matrix:.3f}", one.verdict]))


def cards(inputs: Inputs) -> Named:
    """Every model's bytes at the datasheet bandwidth of each card that ``conf/gpu`` describes."""
    frame = inputs.main
    priced = name_variants(
        frame[frame["model_bytes"].gt(0) & frame["rows"].gt(0) & frame["cols"].gt(0)]
    )
    priced = priced[priced["operation"].eq(OPERATION) | priced["operation"].eq("copy")]
    sizes = priced.groupby(["rows", "cols", "dtype", "variant"])["model_bytes"].max()
    present = {place[:3] for place in sizes.index}
    largest = sorted(present, key=lambda place: (place[0] * place[1], place))[-2:]
    known = [(card.name, card.peak_gbps) for card in known_cards() if card.peak_gbps]
    lines = []
    for m, n, dtype in [place for place in PRICED if place in present] or largest:
        here = sizes.loc[m, n, dtype]
        for variant in sorted(here.index, key=variant_order):
            times = [f"{here[variant] / gbps / 1e3:,.1f}" for _, gbps in known]
            lines.append([variant, f"{m}×{n}", dtype, *times])
    heads = ["variant", "M×N", "dtype", *(f"{name}, {gbps:,.0f} GB/s" for name, gbps in known)]
    note = (
        "Times in µs: the model's bytes over the datasheet's memory bandwidth. That is a lower bound at "
        "DRAM: no card reaches its datasheet, and launches, spills and on-chip limits come on top. "
        "Where the matrix fits a card's L2, re-reads may beat it."
    )
    yield "cards", Table("The models priced for other cards", heads, lines, [note])


# Where rows come from, and how C measured beside how rows were.

FACTS = {"datasheet bandwidth, GB/s": "memory_gbps", "memory, GB": "memory_gb",
         "float32, TFLOPS": "fp32_tflops", "power limit, W": "power_w", "L2, MiB": "l2_mib",
         "SMs": "sms", "highest SM clock, MHz": "clock_mhz"}  # fmt: skip
STATE = {"SM clock, MHz": "sm_clock_mhz", "memory clock, MHz": "memory_clock_mhz",
         "power, W": "power_w", "temperature, °C": "temperature_c"}  # fmt: skip


def environment(inputs: Inputs) -> Named:
    """One line per fact, a column per set and GPU; a dash where neither rows nor datasheet have it."""
    columns = {}
    for (name, gpu), rows in shown_sets(inputs).groupby(["set", "gpu"]):
        columns[", ".join(filter(None, [card_of(gpu).name, name]))] = _facts(rows, gpu)
    facts = pd.DataFrame(columns).replace("", "–")
    lines = [[str(name), *cells] for name, *cells in facts.itertuples()]
    note = "A range is the least and the most that any row has."
    yield "environment", Table("Environment", ["", *columns], lines, [note])


def _facts(rows: pd.DataFrame, gpu: str) -> dict[str, str]:
    facts, good = card_of(gpu).facts, rows[rows["time_us"].notna()]
    width = (good["time_high_us"] - good["time_low_us"]) / good["time_us"] * 50
    hot = [reasons for reasons in rows["throttled"].dropna() if reasons]
    why = f": {_several(reason for reasons in hot for reason in reasons)}" if hot else ""
    asked = len(rows["throttled"].dropna())
    return {
        "name by its driver": gpu,
        "card, of its host": _several(rows["card"]),
        **{name: f"{facts[fact]:,.6g}" if fact in facts else "" for name, fact in FACTS.items()},
        **{name: _several(e.get(name) for e in rows["environment"])
           for name in ("torch", "triton", "cuda", "driver", "python")},
        "commit": _several(map(_commit, rows["environment"])),
        "sweeps": _several(rows["sweep"]),
        "dtypes": _several(rows["dtype"]),
        "timer": _several(good["timer"]),
        "cache": _several(good["cache"]),
        "samples per point": _range(good["samples_us"].map(len, na_action="ignore")),
        "95 % interval, ± % of the median": "" if width.isna().all() else
        f"{number_text(width.median())} in the middle, {number_text(width.max())} at most",
        "sampling ended by": _counts(good["stop_reason"]),
        **{name: _range(rows[column]) for name, column in STATE.items()},
        "throttled rows": f"{thousands(len(hot))} of {thousands(asked)}{why}" if asked else "",
        "rows": thousands(len(rows)),
        "rows by status": _counts(rows["status"]),
    }  # fmt: skip


def c_prof(inputs: Inputs) -> Named:
    """One line per choice of the protocol: C's, and the one that the rows of softmax record."""
    frame = inputs.main
    softmax = frame[frame["operation"] == OPERATION]
    good = frame[frame["set"].isin(softmax["set"]) & frame["time_us"].notna()]
    theirs = sources()["C"].protocol
    if theirs is None or good.empty:
        return
    default, published = theirs.iterations
    warm_up, precision = (
        _several(_asked(e, name) for e in good["environment"]) for name in ("warmup", "precision")
    )
    samples, ends = (
        _range(good["samples_us"].map(len, na_action="ignore")),
        _counts(good["stop_reason"]),
    )
    statistic = "median of all samples, rank-based 95 % interval"
    lines = [
        ["warm-up", f"{theirs.warm_up} iterations", f"{warm_up} samples" if warm_up else ""],
        ["samples", f"{default} iterations; {published} in the published run", f"{samples} ({ends})" if ends else samples],
        ["timer", theirs.timer, _several(good["timer"])],
        ["cache", "", _several(good["cache"])],
        ["statistic", f"mean, {theirs.trimmed_percent:g} % trimmed at each end",
         statistic + (f", to ± {precision} of the median or the cap" if precision else "")],
        *_both_estimators(good, theirs.trimmed_percent),
        ["bytes", theirs.bytes, _passes(good)],
        ["inputs", theirs.inputs, "randn"],
        ["profiling", theirs.profile, "python -m experiments.profile kernel=online grid=point "
         "grid.rows=8192 grid.cols=32000 (one warm call, then one in a profiler range)"],
    ]  # fmt: skip
    note = (
        "This project's side is what the rows record; a dash where they do not. C's estimator is taken "
        "of the same samples: their warm-ups, cache and inputs are as above."
    )
    lines = [[cell or "–" for cell in line] for line in lines]
    heads = ["", "C", "this project, as its rows record it"]
    yield "c_prof", Table("C-prof: how times were taken", heads, lines, [note])


def _asked(environment: Mapping[str, Any], name: str) -> object:
    """What a row's sweep asked of its timing."""
    asked = environment.get("protocol")
    return asked.get(name) if isinstance(asked, dict) else None


def _both_estimators(good: pd.DataFrame, percent: float) -> list[list[str]]:
    """C's printed times beside both estimators of the samples there, then the two at all points."""
    sampled = good[good["samples_us"].map(len, na_action="ignore") > 0]
    means = sampled["samples_us"].map(lambda samples: trimmed_mean(samples, percent))
    lines = []
    for one in sources()["C"].timings:
        kernel = {"hybrid": "hybrid_whole"}.get(one.kernel, one.kernel)  # as its kernel ran
        place = {"kernel": kernel, "rows": one.rows, "cols": one.cols, "dtype": one.dtype}
        for label in sampled.index[(sampled[list(place)] == pd.Series(place)).all(axis=1)][-1:]:
            ours = f"median {sampled['time_us'][label]:.1f} µs, trimmed mean {means[label]:.1f} µs"
            lines.append(
                [f"{kernel}, {one.rows}×{one.cols} {one.dtype}", f"{one.time_ms} ms", ours]
            )
    if len(sampled):
        ratios = (means / sampled["time_us"]).quantile([0, 0.025, 0.5, 0.975, 1])
        low, first, middle, last, high = (f"{ratio:.4f}" for ratio in ratios)
        text = (
            f"{middle} in the middle, {first} to {last} at 95 % of {thousands(len(sampled))} rows"
        )
        lines.append(["trimmed mean over median", "", f"{text}, {low} to {high} at all"])
    return lines


def trimmed_mean(samples: Iterable[float], percent: float) -> float:
    """The mean of samples without so many per cent of them at each end."""
    ordered = sorted(samples)
    cut = int(len(ordered) * percent / 100)
    return float(pd.Series(ordered[cut : len(ordered) - cut]).mean())


def _several(values: Iterable[object]) -> str:
    known = pd.Series(list(values), dtype=object).dropna()
    return ", ".join(sorted(set(map(str, known))))


def _commit(environment: Mapping[str, object]) -> str:
    commit = environment.get("commit")
    if commit is None:
        return "unknown"
    return f"{str(commit)[:12]} ({'dirty' if environment.get('dirty') else 'clean'})"


def _range(values: pd.Series) -> str:
    if values.isna().all():
        return ""
    low, high = f"{values.min():,.5g}", f"{values.max():,.5g}"
    return low if low == high else f"{low} to {high}"


def _counts(values: pd.Series) -> str:
    """Values with how often they occur, the most frequent first."""
    known = values.value_counts().sort_index().sort_values(ascending=False, kind="stable")
    return ", ".join(f"{name} {thousands(count)}" for name, count in known.items())


def _passes(good: pd.DataFrame) -> str:
    """Compulsory bytes as multiples of M·N·itemsize, as the rows have them."""
    cells = good["rows"].astype(float) * good["cols"] * good["dtype"].map(ITEM_BYTES)
    multiples = (good["compulsory_bytes"] / cells.where(cells > 0)).dropna().round(6)
    return ", ".join(f"{multiple:g}·M·N·itemsize" for multiple in sorted(set(multiples)))


DECLARED_NEEDS = "variants.json with a softmax variant beside the rows (a sweep writes it)"
# By the name that --only takes: what a table needs, and its function.
TABLES: Mapping[str, tuple[str, Callable[[Inputs], Named]]] = {
    "main": ("rows with a time", main),
    "a_tab1": (DECLARED_NEEDS, a_tab1),
    "b_tab1": (DECLARED_NEEDS, b_tab1),
    "c_ex": ("a trace of the kernel at C's worked example in traces.jsonl (make counts)", c_ex),
    "c_prof": ("rows of softmax with a time", c_prof),
    "d_test": ("rows at 1823×781 (grid=irregular)", d_test),
    "limits": (limit.NEEDS, limits),
    "limits_summary": (limit.NEEDS, limits_summary),
    "above_roof": ("timed rows beside their roof", above_roof),
    "card_to_card": (
        "points that several cards measured in one sweep (EXPERIMENT=cards)",
        card_to_card,
    ),
    "determinism": ("rows that were asked for the same bits (determinism=true)", determinism),
    "memory": ("rows that say how much memory a call had (peak_bytes)", memory),
    "traffic": ("counts.jsonl or counters.jsonl of the rows' kernels (make counters)", traffic),
    "cards": ("rows of softmax with model_bytes", cards),
    "environment": ("rows", environment),
}


def tables_of(inputs: Inputs, asked: Sequence[str] = ()) -> tuple[dict[str, Table], list[str]]:
    """Every table that the inputs allow, by its files' name, and what each of the others needs.

    Args:
        inputs: Rows, and all that lies beside them.
        asked: Names of `TABLES`; none for all of them.
    """
    made: dict[str, Table] = {}
    missing = []
    for name, (needs, make) in TABLES.items():
        if not asked or name in asked:
            found = {stem: table for stem, table in make(inputs) if table.lines}
            made |= found
            missing += [] if found else [f"{name} needs {needs}"]
    return made, missing


def run(options: argparse.Namespace) -> int:
    """Writes each table as Markdown and CSV, and prints the paths."""
    asked = only(options.only, list(TABLES))
    inputs = read_inputs(options.rows, options.out, "tables", options.ours)
    tables, missing = tables_of(inputs, asked)
    if not tables:
        raise RowsError(f"{inputs.rows}: no table can be written: {'; '.join(missing)}")
    finish(
        [path for stem, one in tables.items() for path in write_table(inputs.out, stem, one)],
        missing,
    )
    return 0
