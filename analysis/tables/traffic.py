"""The traffic of each kernel: declared beside A-tab1 and B-tab1, and modelled, counted, measured.

Formulas are compared as polynomials, and orders on chip are derived from declarations.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pandas as pd
import sympy

from analysis.figures.style import variant_order
from analysis.formula import N, equal, expression
from analysis.load import Inputs, kernel_name
from analysis.published import OPERATION, sources
from analysis.tables.frames import Named, table, texts
from experiments.data.jobs import Declaration
from experiments.data.records import Count, Counters
from experiments.data.rows import ITEM_BYTES

LIBRARY = ("torch", "inductor", "torchscript")  # they choose algorithms, or fuse operations
AGREES = 0.01  # of the model, or of one M×N matrix; more than counters vary by
KINDS = ("reads", "writes")
SEEN = {  # no counter tells L2's writes apart
    "L2 reads": "l2_to_sm_bytes",
    "DRAM reads": "dram_read_bytes",
    "DRAM writes": "dram_write_bytes",
}
Moved = dict[str, tuple[float, int, str]]  # by way: the bytes, those of a matrix, and the verdict


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
    """The ``cells`` of each variant's declaration beside those of a source's table."""
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
    """The order of the elements of a row that a variant holds, and whether it takes any N."""
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
    """A line per variant and shape that counters saw, with the count of the case nearest to it.

    A variant that no counter saw stands at its largest counted shape in each dtype.
    """
    kernels = set(inputs.frame["kernel"])

    def known(records: Iterable[Any]) -> list[Any]:
        return [one for one in records if kernel_name(one.kernel) in kernels and _matrix(one)]

    counts: dict[tuple[str, str], list[Count]] = defaultdict(list)
    for count in sorted(known(inputs.records.counts), key=_matrix, reverse=True):
        counts[count.kernel, count.dtype].append(count)
    seen = known(inputs.records.counters)
    measured = {(one.kernel, one.dtype) for one in seen}
    seen += [found[0] for at, found in counts.items() if at not in measured]
    cells, data = [], []
    for one in sorted(seen, key=_order):
        place = {"variant": one.kernel, "M×N": f"{one.rows}×{one.cols}", "dtype": one.dtype}
        place["GPU"] = getattr(one, "gpu", "any")
        moved = _moved(one, counts.get((one.kernel, one.dtype), []))
        cells.append(place | {name: _cell(*found) for name, found in moved.items()})
        data.append(place | {f"{name}, bytes": size for name, (size, _, _) in moved.items()})
    columns = [*(f"{way} {kind}" for way in ("modelled", "counted") for kind in KINDS), *SEEN]
    heads = ["variant", "M×N", "dtype", "GPU", *columns]
    shown = pd.DataFrame(cells, columns=heads, dtype=object).fillna("")
    title = "Traffic: modelled, counted, measured"
    yield "traffic", table(title, shown, texts("traffic"), pd.DataFrame(data))


def _order(record: Count | Counters) -> tuple[Any, ...]:
    """Those of a GPU first, then by dtype and size, the largest first."""
    gpu, size = getattr(record, "gpu", ""), record.rows * record.cols
    order = variant_order(record.kernel.replace(",", " "))
    return (not gpu, gpu, record.dtype, -size, record.cols, order)


def _moved(record: Count | Counters, counts: Sequence[Count]) -> Moved:
    """What a kernel moves by its model, by the nearest count of it, and as counters saw it."""
    matrix = _matrix(record)
    moved: Moved = {f"modelled {kind}": (_model(record, kind), matrix, "") for kind in KINDS}

    def passes(one: Count | Counters) -> float:
        return (one.model_reads + one.model_writes) / (one.rows * one.cols)

    # the same case, one pass or three, is the one whose model is nearest in passes
    apart = [round(abs(passes(one) - passes(record)), 1) for one in counts]
    for kind in KINDS if counts else ():
        moved[f"counted {kind}"] = _counted(counts[apart.index(min(apart))], kind)
    for name, column in SEEN.items():
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


def _cell(size: float, matrix: int, verdict: str) -> str:
    return ", ".join(filter(None, ["" if math.isnan(size) else f"{size / matrix:.3f}", verdict]))


def _matrix(record: Count | Counters) -> int:
    return record.rows * record.cols * ITEM_BYTES[record.dtype]


def _model(record: Count | Counters, kind: str) -> int:
    own = getattr(record, f"model_{kind[:-1]}_bytes", None)  # of counts whose dtypes differ
    elements = record.model_reads if kind == "reads" else record.model_writes
    return elements * ITEM_BYTES[record.dtype] if own is None else int(own)
