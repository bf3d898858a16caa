"""What variants declare, what sources print and what was counted: A-tab1, B-tab1, C-ex, traffic."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pandas as pd
import sympy

from analysis.figures.style import variant_order
from analysis.figures.traffic import (
    KINDS,
    LIBRARY,
    Level,
    counted_beside,
    counted_verdict,
    levels_of,
)
from analysis.format import thousands
from analysis.formula import N, equal, expression
from analysis.load import Inputs, kernel_name
from analysis.published import OPERATION, Traffic, sources
from analysis.selection import name_variants
from analysis.tables.frames import Named, table
from analysis.worked_example import example_table
from experiments.data.jobs import Declaration

DECLARED = (
    "Elements. Declared: what each kernel declared when its rows were made. Formulas are compared "
    "as polynomials.",
    "Counted: the requests of one call, executed and instrumented, against the declared formula; "
    "nominal where a library's own kernel is assumed to read and write once.",
)
ON_CHIP = (
    "On chip: O(N) where the declared elements per row grow with N, O(B) where they are the block "
    "size, else O(1). A variant takes any N unless what it holds on chip grows with N; nominally, "
    "where the library decides that itself."
)
MOVED = (
    "In units of MN elements, then whether it agrees with the model within 1 %, or why not. The "
    "CSV has the bytes.",
    "Counted is at the counted shape of the same case nearest in size; counting takes small ones. "
    "Nominal: each operation of PyTorch reads its inputs and writes its outputs once. DRAM is "
    "judged on its reads: its writes lag, as the last lines are still dirty in L2 when a kernel "
    "ends.",
)


def a_tab1(inputs: Inputs) -> Named:
    """Reads, writes and total: A's two approaches first, then all other variants."""
    lines = []
    for label, ours, they in _approaches(inputs, "A-tab1"):
        declared = [ours.reads, ours.writes, ours.formula] if ours else [""] * 3
        printed = [they.reads, they.writes, they.total] if they else [None] * 3
        same = _same(declared, printed) if ours else "not declared"
        counts = [one for one in inputs.records.counts if one.kernel == label]
        alike = [one for one in counts if ours is None or one.source == ours.source]
        verdicts = dict.fromkeys(
            counted_verdict(kind, one) if one.method != "none" else one.reason or "not countable"
            for one in alike
            for kind in KINDS
        )
        counted = f"{'; '.join(verdicts)} ({len(alike)} counts)" if alike else ""
        if counts and not alike:
            counted = "other code was counted"
        lines.append([label, *declared, *printed, same, counted])
    heads = ["approach", "reads", "writes", "total", "A: reads", "A: writes", "A: total", "equal",
             "counted"]  # fmt: skip
    frame = pd.DataFrame(lines, columns=heads)
    yield "a_tab1", table("A-tab1: memory traffic by approach", frame, DECLARED)


def b_tab1(inputs: Inputs) -> Named:
    """Reads, on-chip memory and wide rows: B's three approaches first, then all others."""
    own = name_variants(inputs.main[inputs.main["operation"] == OPERATION])
    seen = own.assign(label=own["variant"].astype(str).str.replace(" ", ","))
    dtype, lines = sources()["B"].dtype, []
    for label, ours, they in _approaches(inputs, "B-tab1"):
        declared = [ours.reads, _order(ours), _any_width(ours)] if ours else [""] * 3
        wide = None if they is None or they.any_width is None else _yes(they.any_width)
        printed = [they.reads, they.on_chip, wide] if they else [None] * 3
        same = _same(declared, printed, formulas=1) if ours else "not declared"
        lines.append([label, *declared, *printed, same, _widths(seen, label, dtype)])
    heads = ["approach", "reads", "on chip per row", "any N", "B: reads", "B: on chip", "B: any N",
             "equal", f"widths in rows, {dtype}"]  # fmt: skip
    frame = pd.DataFrame(lines, columns=heads)
    yield "b_tab1", table("B-tab1: on-chip memory and wide rows by approach", frame, [ON_CHIP])


def _approaches(
    inputs: Inputs, place: str
) -> Iterator[tuple[str, Declaration | None, Traffic | None]]:
    """What a source prints at ``place``, declared or not, then all other variants of the rows."""
    kernels = set(inputs.main["kernel"])
    declared = {
        label: one
        for label, one in inputs.declarations.items()
        if one.operation == OPERATION and kernel_name(label) in kernels
    }
    statements = [t for source in sources().values() for t in source.traffic]
    printed = {statement.kernel: statement for statement in statements if statement.at == place}
    others = sorted(declared.keys() - printed, key=lambda k: variant_order(k.replace(",", " ")))
    for label in [*printed, *others] if declared else []:
        yield label, declared.get(label), printed.get(label)


def _same(declared: Sequence[str], printed: Sequence[str | None], formulas: int = 3) -> str:
    """``yes`` where all that is printed is what is declared, the first as polynomials."""
    if not any(printed):
        return ""
    pairs = [*zip(declared, printed, strict=True)]
    try:
        polynomials = [equal(ours, they) for ours, they in pairs[:formulas] if they]
    except ValueError:
        return "not comparable"
    return _yes(all(polynomials) and all(ours == they for ours, they in pairs[formulas:] if they))


def _widths(seen: pd.DataFrame, label: str, dtype: str) -> str:
    """A sentence per GPU: the widest N that ran, and the narrowest that did not, with its reason.

    Rows of ``dtype`` count; where there are none, those of all others do, by name.
    """
    mine = seen[seen["label"].eq(label) | seen["kernel"].eq(label)]
    own = mine[mine["dtype"] == dtype]
    if len(mine) and own.empty:
        others = sorted(set(mine["dtype"]))
        return "; ".join(f"{other}: {_widths(mine, label, other)}" for other in others)
    by_gpu = {str(gpu): _widest(rows) for gpu, rows in own.groupby("gpu")}
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
    """C's worked example recomputed, where rows hold the kernel that it is about."""
    if "online" in set(inputs.main["kernel"]):
        yield "c_ex", example_table()


def traffic(inputs: Inputs) -> Named:
    """What the rows' kernels move at each level: a line per variant and shape.

    A variant that no counter saw stands at its largest counted shape in each dtype.
    """
    backends = dict(zip(inputs.frame["kernel"], inputs.frame["backend"], strict=True))
    seen = [
        one for one in levels_of(inputs.records, backends) if kernel_name(one.variant) in backends
    ]
    if not seen:
        return
    counted = {(one[:5], one.kind): counted_beside(seen, one) for one in seen
               if one.level == "modelled"}  # fmt: skip
    lines: dict[tuple[Any, ...], dict[str, str]] = {}
    for one in sorted(seen, key=_level_order):
        other = lines.setdefault(one[:5], {})
        other[f"{one.level} {one.kind}"] = _text(one)
        if (best := counted[one[:5], one.kind]) is not None:
            other[f"counted {one.kind}"] = _text(best)
    measured = {(place[0], place[3]) for place in lines if place[4]}
    largest: dict[tuple[str, str], tuple[Any, ...]] = {}
    for place in lines:
        if not place[4] and (place[0], place[3]) not in measured:
            largest.setdefault((place[0], place[3]), place)
    shown = [place for place in lines if place[4] or place in largest.values()]
    columns = ["modelled reads", "modelled writes", "counted reads", "counted writes", "L2 reads",
               "DRAM reads", "DRAM writes"]  # fmt: skip
    texts = pd.DataFrame([
        {"variant": place[0], "M×N": f"{place[1]}×{place[2]}", "dtype": place[3],
         "GPU": place[4] or "any", **{name: lines[place].get(name, "") for name in columns}}
        for place in shown
    ])  # fmt: skip
    data = pd.DataFrame([
        {**one._asdict(), "units_of_mn": None if one.size is None else one.size / one.matrix}
        for one in sorted(seen, key=_level_order)
    ]).rename(columns={"size": "bytes", "model": "model_bytes"})  # fmt: skip
    yield "traffic", table("Traffic: modelled, counted, measured", texts, MOVED, data)


def _level_order(one: Level) -> tuple[Any, ...]:
    """Counters before counts, large shapes first, variants as everywhere."""
    name = variant_order(one.variant.replace(",", " "))
    return not one.gpu, one.gpu, one.dtype, -one.rows * one.cols, one.cols, name


def _text(one: Level) -> str:
    size = "" if one.size is None else f"{one.size / one.matrix:.3f}"
    return ", ".join(filter(None, [size, one.verdict]))
