"""The sources' own tables beside what variants declare and rows hold: A-tab1, B-tab1, C-ex, C-prof.

Formulas are compared as polynomials, and orders on chip are derived from what kernels declare.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pandas as pd
import sympy

from analysis.figures.style import variant_order
from analysis.figures.traffic import LIBRARY
from analysis.format import thousands
from analysis.formula import N, equal, expression
from analysis.load import Inputs, kernel_name
from analysis.published import OPERATION, Traffic, sources
from analysis.selection import name_variants
from analysis.tables.frames import Named, counts, ends, several, table
from analysis.worked_example import example_table
from experiments.data.jobs import Declaration
from experiments.data.rows import ITEM_BYTES

DECLARED = (
    "Elements, as each kernel declared them when its rows were made, beside what A prints. "
    "Formulas are compared as polynomials."
)
ON_CHIP = (
    "On chip: O(N) where the declared elements per row grow with N, O(B) where they are the block "
    "size, else O(1). A variant takes any N unless what it holds on chip grows with N; nominally, "
    "where the library decides that itself."
)
RECORDED = "This project's side is what the rows record; a dash where they do not."


def a_tab1(inputs: Inputs) -> Named:
    """Reads, writes and total: A's two approaches first, then all other variants."""
    lines = []
    for label, ours, they in _approaches(inputs, "A-tab1"):
        declared = [ours.reads, ours.writes, ours.formula] if ours else [""] * 3
        printed = [they.reads, they.writes, they.total] if they else [None] * 3
        same = _same(declared, printed) if ours else "not declared"
        lines.append([label, *declared, *printed, same])
    heads = ["approach", "reads", "writes", "total", "A: reads", "A: writes", "A: total", "equal"]
    frame = pd.DataFrame(lines, columns=heads)
    yield "a_tab1", table("A-tab1: memory traffic by approach", frame, [DECLARED])


def b_tab1(inputs: Inputs) -> Named:
    """Reads, on-chip memory and wide rows: B's three approaches first, then all others."""
    own = name_variants(inputs.main[inputs.main["operation"] == OPERATION])
    dtype, lines = sources()["B"].dtype, []
    for label, ours, they in _approaches(inputs, "B-tab1"):
        declared = [ours.reads, _order(ours), _any_width(ours)] if ours else [""] * 3
        wide = None if they is None or they.any_width is None else _yes(they.any_width)
        printed = [they.reads, they.on_chip, wide] if they else [None] * 3
        same = _same(declared, printed, formulas=1) if ours else "not declared"
        mine = own[own["variant"].eq(label.replace(",", " ")) | own["kernel"].eq(label)]
        lines.append([label, *declared, *printed, same, _widths(mine, dtype)])
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
    statements = [one for source in sources().values() for one in source.traffic]
    printed = {one.kernel: one for one in statements if one.at == place}
    others = sorted(declared.keys() - printed, key=lambda k: variant_order(k.replace(",", " ")))
    for label in [*printed, *others] if declared else []:
        yield label, declared.get(label), printed.get(label)


def _same(declared: Sequence[str], printed: Sequence[str | None], formulas: int = 3) -> str:
    """``yes`` where all that is printed is what is declared, the first as polynomials."""
    if not any(printed):
        return ""
    pairs = [*zip(declared, printed, strict=True)]
    try:
        same = [equal(ours, they) for ours, they in pairs[:formulas] if they]
    except ValueError:
        return "not comparable"
    return _yes(all(same) and all(ours == they for ours, they in pairs[formulas:] if they))


def _widths(rows: pd.DataFrame, dtype: str) -> str:
    """The widest N that ran, and the narrowest that did not, with its reason.

    Rows of ``dtype`` count; where there are none, those of all others do, by name.
    """
    if dtype not in set(rows["dtype"]):
        return "; ".join(f"{one}: {_widths(rows, one)}" for one in sorted(set(rows["dtype"])))
    rows = rows[rows["dtype"] == dtype]
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


def c_prof(inputs: Inputs) -> Named:
    """One line per choice of the protocol: C's, and the one that the rows of softmax record."""
    frame, theirs = inputs.main, sources()["C"].protocol
    softmax = frame[frame["operation"] == OPERATION]
    good = frame[frame["set"].isin(softmax["set"]) & frame["time_us"].notna()]
    if theirs is None or good.empty:
        return
    default, published = theirs.iterations
    protocols = [one.get("protocol") for one in good["environment"]]
    asked = [one for one in protocols if isinstance(one, dict)]
    warm_up, precision = (
        several(one.get(name) for one in asked) for name in ("warmup", "precision")
    )
    sizes = ends(good["samples_us"].map(len, na_action="ignore"))
    elements = (good["rows"].astype(float) * good["cols"]).where(lambda size: size > 0)
    passes = good["compulsory_bytes"] / (elements * good["dtype"].map(ITEM_BYTES))
    moved = several(f"{one:g}·M·N·itemsize" for one in passes.dropna().round(6))
    lines = [
        ["warm-up", f"{theirs.warm_up} iterations", f"{warm_up} samples" * bool(warm_up)],
        ["samples", f"{default} iterations; {published} in the published run",
         f"{sizes} ({counts(good['stop_reason'])})"],
        ["timer", theirs.timer, several(good["timer"])],
        ["cache", "", several(good["cache"])],
        ["statistic", f"mean, {theirs.trimmed_percent:g} % trimmed at each end",
         "median of all samples, rank-based 95 % interval"
         + f", to ± {precision} of the median or the cap" * bool(precision)],
        ["bytes", theirs.bytes, moved],
        ["inputs", theirs.inputs, "randn"],
        ["profiling", theirs.profile, "python -m experiments.profile kernel=online grid=point "
         "grid.rows=8192 grid.cols=32000 (one warm call, then one in a profiler range)"],
    ]  # fmt: skip
    shown = pd.DataFrame(lines, columns=["choice", "C", "this project, as its rows record it"])
    yield "c_prof", table("C-prof: how times were taken", shown, [RECORDED])
