"""The sources' tables and this project's own: times, errors and traffic.

Each entry of `TABLES` has a function that yields tables with the names of their files. The CSV of a
table has its numbers with six digits and, in ``keys`` and ``recordings``, the rows behind each
line, which ``python -m analysis trace`` prints.
"""

import argparse
import math
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np
import pandas as pd
import sympy

from analysis.__main__ import finish, only
from analysis.figures.kernels import kernels
from analysis.figures.style import file_name, ordered, protocol, slug, variant_order
from analysis.format import Cell, Named, Table, number_text, table, texts, write_table
from analysis.load import Inputs, kernel_name, read_inputs
from analysis.points import NEEDS
from analysis.published import OPERATION, Line, N, equal, expression, sources, worked_example
from analysis.selection import PROTOCOLS, middle_visits, name_variants, one_sweep, timed
from analysis.tables import limits
from experiments.data.cards import datasheet_of
from experiments.data.files import RowsError
from experiments.data.jobs import Declaration
from experiments.data.records import Count, Counters
from experiments.data.rows import ITEM_BYTES
from experiments.data.statistics import unconverged

IRREGULAR = (1823, 781)  # M and N of D's test
MOST_SHAPES = 8  # shown if rows have fewer than two of the sources' own
MACHINE = [
    *("variant", "rows", "cols", "gpu", "dtype", "timer", "cache", "status", "reason", "time_us"),
    *("time_low_us", "time_high_us", "effective_gbps", "roof_gbps", "fraction_of_roof"),
    *("speedup_over_naive", "above_roof"),
]
LIBRARY = ("torch", "inductor", "torchscript")  # backends that choose algorithms or fuse operations
AGREES = 0.01  # share of the model or of one M×N matrix; counters vary by less
KINDS = ("reads", "writes")
BY_NCU = {  # columns of counters; none has L2's writes
    "L2 reads": "l2_to_sm_bytes",
    "DRAM reads": "dram_read_bytes",
    "DRAM writes": "dram_write_bytes",
}
Moved = dict[str, tuple[float, int, str]]  # by column: bytes, the bytes of a matrix, verdict
DECLARED = "variants.json with a softmax variant beside the rows (a sweep writes it)"


def main(inputs: Inputs) -> Named:
    """Time and share of the roof by shape and variant, for each GPU, operation and dtype."""
    frame = inputs.main
    own = frame[timed(frame) & (frame["operation"] != frame["roof"])]
    for _, every in own.groupby(own["operation"].ne(OPERATION)):  # softmax first
        for at, good in every.groupby(["operation", "gpu", "dtype", "set"]):
            operation, gpu, dtype, name = map(str, at)
            rows = frame[frame["operation"].isin([operation, *good["roof"].unique()])]
            alike = (rows["set"] == name) & (rows["gpu"] == gpu) & (rows["dtype"] == dtype)
            title = f"Main results: {datasheet_of(gpu).name}, {operation}, {dtype}"
            found = _main_table(title, one_sweep(rows[alike], good), operation)
            yield file_name("main", operation, slug(gpu), dtype), found


def _main_table(title: str, rows: pd.DataFrame, operation: str) -> Table:
    """The table of one GPU, dtype and sweep, under the first protocol that figures draw."""
    known = rows.loc[timed(rows) & (rows["operation"] == operation), ["timer", "cache"]]
    protocols = set(known.itertuples(index=False, name=None))
    timer, cache = min(protocols, key=lambda p: (PROTOCOLS.index(p) if p in PROTOCOLS else 9, p))
    alike = (rows["timer"] == timer) & (rows["cache"] == cache)
    rows = name_variants(rows[alike | ~timed(rows)])
    own = rows[rows["operation"] == operation]
    at = pd.MultiIndex.from_frame(rows[["rows", "cols"]]).isin(_key_shapes(own))
    points = middle_visits(rows[at]).sort_values(["rows", "cols"], kind="stable")
    points = points.drop_duplicates(["rows", "cols", "variant"], keep="last", ignore_index=True)
    points["good"] = good = timed(points)
    wins = good & ~points["above_roof"] & (points["operation"] == operation)
    wins = points["time_us"].where(wins)
    strong = wins.notna() & wins.eq(wins.groupby([points["rows"], points["cols"]]).transform("min"))
    cells = [Cell(*one) for one in zip(map(_cell, points.to_dict("records")), strong, strict=True)]
    points["text"] = pd.Series(cells, dtype=object)
    # `pivot` would lose the bold type
    shown = points.set_index(["rows", "cols", "variant"])["text"].unstack("variant").fillna("–")
    shown = shown[sorted(shown, key=lambda name: variant_order(str(name)))]
    shown.insert(0, "M×N", [f"{m}×{n}" for m, n in shown.index])
    late = int(points.loc[good, "stop_reason"].map(unconverged).ne("").sum())
    facts = {"protocol": protocol(timer, cache), "roof": own["roof"].iloc[0]}
    notes = texts("main", late=late, times=int(good.sum()), **facts)
    failed = points[~good & points["reason"].notna()]
    reasons = failed["variant"] + ", " + failed["status"] + ": " + failed["reason"]
    data = points[MACHINE].assign(keys=points["key"], recordings=points["recording"])
    return table(title, shown, [*notes, *reasons.unique()], data)


def _cell(row: Mapping[Any, Any]) -> str:
    if not row["good"]:
        return "not timed" if row["status"] == "ok" else str(row["status"])
    share = "" if pd.isna(row["fraction_of_roof"]) else f" ({100 * row['fraction_of_roof']:.0f} %)"
    return f"{number_text(row['time_us'])}{share}{'!' * row['above_roof']}"


def _key_shapes(rows: pd.DataFrame) -> list[tuple[int, int]]:
    """The shapes of the sources' numbers and of D's test that rows have; if too few, a spread."""
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
    # if there are several visits: a failed one, else the one with the largest error
    visits = name_variants(rows).assign(fine=rows["status"] == "ok")
    visits = visits.sort_values(["fine", "max_abs_error"], ascending=[True, False], kind="stable")
    worst = ordered(visits.drop_duplicates(["gpu", "dtype", "variant"]), "gpu", "dtype")
    names = ["gpu", "dtype", "variant", "status", "reason", "max_abs_error", "relative_error"]
    errors = worst[names].assign(keys=worst["key"], recordings=worst["recording"])
    yield "d_test", table(f"D-test: correctness at {m}×{n}", errors, texts("d_test"))


def c_ex(inputs: Inputs) -> Named:
    """C's worked example recomputed, if rows have the kernel that it is about."""
    if "online" in set(inputs.main["kernel"]):
        title = "C-ex: the worked example, recomputed"
        yield "c_ex", Table(title, Line._fields, worked_example(), texts("c_ex"))


def a_tab1(inputs: Inputs) -> Named:
    """Reads, writes and total: A's two approaches first, then all other variants."""
    shown = _beside(inputs, "A-tab1", lambda one: [one.reads, one.writes, one.formula])
    yield "a_tab1", table("A-tab1: memory traffic by approach", shown, texts("a_tab1"))


def b_tab1(inputs: Inputs) -> Named:
    """Reads, on-chip memory and wide rows: B's three approaches first, then all others."""
    title = "B-tab1: on-chip memory and wide rows by approach"
    shown = _beside(inputs, "B-tab1", lambda one: [one.reads, *_on_chip(one)])
    yield "b_tab1", table(title, shown, texts("b_tab1"))


def _beside(
    inputs: Inputs, place: str, cells: Callable[[Declaration], Sequence[str]]
) -> pd.DataFrame:
    """The ``cells`` of each variant's declaration beside a source's table."""
    printed, kernels = sources()[place[0]].tables[place], set(inputs.main["kernel"])
    declared = {
        label: cells(one)
        for label, one in inputs.declarations.items()
        if one.operation == OPERATION and kernel_name(label) in kernels
    }
    heads = list(printed["fused"])
    others = sorted(declared.keys() - printed, key=lambda k: variant_order(k.replace(",", " ")))
    lines = []
    for label in [*printed, *others] if declared else []:
        they = [printed.get(label, {}).get(head, "") for head in heads]
        own = declared.get(label, [""] * len(heads))
        same = _same(own, they) if label in declared else "not declared"
        lines.append([label, *own, *they, same])
    columns = ["approach", *heads, *(f"{place[0]}: {head}" for head in heads), "equal"]
    return pd.DataFrame(lines, columns=columns)


def _same(declared: Sequence[str], printed: Sequence[str]) -> str:
    """``yes`` where every printed cell is the declared one, formulas as polynomials."""
    pairs = [(own, they) for own, they in zip(declared, printed, strict=True) if they]
    try:
        same = all(own == they or equal(own, they) for own, they in pairs)
    except ValueError:  # one of them is no formula
        same = False
    return ("yes" if same else "no") if pairs else ""


def _on_chip(declared: Declaration) -> tuple[str, str]:
    """How the on-chip elements of a row grow, O(1), O(B) or O(N), and whether any N is taken."""
    try:
        held = expression(declared.on_chip)
    except ValueError:
        return declared.on_chip, "yes"
    if isinstance(held, sympy.Piecewise):  # the case of the widest rows counts
        held = held.args[-1].expr
    if N in held.free_symbols:
        return "O(N)", f"{'nominally ' * (declared.backend in LIBRARY)}no"
    return "O(B)" if held == declared.params.get("block_size") else "O(1)", "yes"


def traffic(inputs: Inputs) -> Named:
    """A line per variant and shape that counters saw, with the count of the most similar case.

    A variant without counters has a line at its largest counted shape in each dtype.
    """
    kernels, counts, seen = set(inputs.frame["kernel"]), dict[Any, Any](), dict[Any, Any]()
    for found, records in ((counts, inputs.records.counts), (seen, inputs.records.counters)):
        for one in sorted(records, key=_matrix, reverse=True):
            if kernel_name(one.kernel) in kernels and _matrix(one):
                found.setdefault((one.kernel, one.dtype), []).append(one)
    alone = {at: every[:1] for at, every in counts.items()}
    cells, data = [], []
    for one in sorted(chain(*(alone | seen).values()), key=_order):
        place = {"variant": one.kernel, "M×N": f"{one.rows}×{one.cols}", "dtype": one.dtype}
        place["GPU"] = getattr(one, "gpu", "any")
        moved = _moved(one, counts.get((one.kernel, one.dtype), []))
        data.append(place | {f"{name}, bytes": size for name, (size, _, _) in moved.items()})
        for name, (size, matrix, verdict) in moved.items():
            amount = "" if math.isnan(size) else f"{size / matrix:.3f}"
            place[name] = ", ".join(filter(None, [amount, verdict]))
        cells.append(place)
    columns = [*(f"{way} {kind}" for way in ("modelled", "counted") for kind in KINDS), *BY_NCU]
    heads = ["variant", "M×N", "dtype", "GPU", *columns]
    shown = pd.DataFrame(cells, columns=heads, dtype=object).fillna("")
    title = "Traffic: modelled, counted, measured"
    yield "traffic", table(title, shown, texts("traffic"), pd.DataFrame(data))


def _order(record: Count | Counters) -> tuple[Any, ...]:
    """Records of a GPU come first; then by dtype and size, the largest first."""
    gpu, size = getattr(record, "gpu", ""), record.rows * record.cols
    order = variant_order(record.kernel.replace(",", " "))
    return (not gpu, gpu, record.dtype, -size, record.cols, order)


def _moved(record: Count | Counters, counts: Sequence[Count]) -> Moved:
    """The bytes that a kernel moves: by its model, by its nearest count, and by counters."""
    matrix = _matrix(record)
    moved: Moved = {f"modelled {kind}": (_model(record, kind), matrix, "") for kind in KINDS}

    def passes(one: Count | Counters) -> float:
        return (one.model_reads + one.model_writes) / (one.rows * one.cols)

    # the nearest count is of the same case (one pass or three): its model has similar passes
    apart = [round(abs(passes(one) - passes(record)), 1) for one in counts]
    for kind in KINDS if counts else ():
        nearest = counts[apart.index(min(apart))]
        counted, own, verdict = _counted(nearest, kind)
        if min(apart) > 0 and verdict in ("exact", "nominal"):  # attention at another N
            counted, verdict = math.nan, f"{verdict} at {nearest.rows}×{nearest.cols}"
        moved[f"counted {kind}"] = counted, own, verdict
    for name, column in BY_NCU.items():
        if (size := getattr(record, column, None)) is not None:
            model = _model(record, name.split()[1])
            near = abs(size - model) <= AGREES * max(model, matrix)
            moved[name] = size, matrix, "agrees" if near else f"{size / max(model, 1) - 1:+.0%}"
    return moved


def _counted(count: Count, kind: str) -> tuple[float, int, str]:
    """The bytes requested: exact, nominal, or how they differ in the record's own words."""
    if count.method == "none":
        return math.nan, 1, (count.reason or "not countable").split(":")[0]
    size = sum(t.load_bytes if kind == "reads" else t.store_bytes for t in count.tensors)
    differs = [one for one in (count.difference or "").split("; ") if one.startswith(kind)]
    return size, _matrix(count), [*differs, "nominal" if count.nominal else "exact"][0]


def _matrix(record: Count | Counters) -> int:
    return record.rows * record.cols * ITEM_BYTES[record.dtype]


def _model(record: Count | Counters, kind: str) -> int:
    own = getattr(record, f"model_{kind[:-1]}_bytes", None)  # counts of several dtypes have it
    elements = record.model_reads if kind == "reads" else record.model_writes
    return elements * ITEM_BYTES[record.dtype] if own is None else int(own)


# By the name that --only takes: the rows that a table needs, and its function.
TABLES: Mapping[str, tuple[str, Callable[[Inputs], Named]]] = {
    "headline": (NEEDS, limits.headline),
    "operations": (NEEDS, limits.operations),
    "main": ("rows with a time", main),
    "a_tab1": (DECLARED, a_tab1),
    "b_tab1": (DECLARED, b_tab1),
    "c_ex": ("rows of online, which C's worked example is about", c_ex),
    "d_test": ("rows at 1823×781 (grid=irregular)", d_test),
    "limits": (NEEDS, limits.limits),
    "kernels": ("rows with a time, or of a sweep with determinism=true", kernels),
    "traffic": ("counts or counters of the rows' kernels (make counters)", traffic),
}


def tables_of(inputs: Inputs, name: str) -> dict[str, Table]:
    """The tables of one name in `TABLES` that the inputs allow, by the names of their files."""
    return {stem: one for stem, one in TABLES[name][1](inputs) if one.lines}


def run(options: argparse.Namespace) -> int:
    """Writes each table as Markdown and CSV, and prints the paths."""
    asked = only(options.only, list(TABLES))
    inputs = read_inputs(options.rows, options.out, "tables", options.ours)
    names, missing = [one for one in TABLES if not asked or one in asked], list[str]()
    for name in names:
        tables = tables_of(inputs, name)
        finish(path for stem, one in tables.items() for path in write_table(inputs.out, stem, one))
        missing += [] if tables else [f"{name} needs {TABLES[name][0]}"]
    if len(missing) == len(names):
        raise RowsError(f"{inputs.rows}: no table can be written: {'; '.join(missing)}")
    finish([], missing)
    return 0
