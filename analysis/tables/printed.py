"""The sources' own tables beside what variants declare and rows hold: A-tab1, B-tab1, C-ex, C-prof.

Formulas are compared as polynomials, and orders on chip are derived from what kernels declare.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pandas as pd
import sympy

from analysis.figures.style import variant_order
from analysis.figures.traffic import LIBRARY
from analysis.formula import N, equal, expression
from analysis.load import Inputs, kernel_name
from analysis.published import OPERATION, Traffic, sources
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
    shown = _beside(
        inputs, "A-tab1", ["reads", "writes", "total"], 3,
        lambda ours: [ours.reads, ours.writes, ours.formula],
        lambda they: [they.reads, they.writes, they.total],
    )  # fmt: skip
    yield "a_tab1", table("A-tab1: memory traffic by approach", shown, [DECLARED])


def b_tab1(inputs: Inputs) -> Named:
    """Reads, on-chip memory and wide rows: B's three approaches first, then all others."""
    shown = _beside(
        inputs, "B-tab1", ["reads", "on chip", "any N"], 1,
        lambda ours: [ours.reads, _order(ours), _any_width(ours)],
        lambda they: [they.reads, they.on_chip, _yes(they.any_width)],
    )  # fmt: skip
    yield "b_tab1", table("B-tab1: on-chip memory and wide rows by approach", shown, [ON_CHIP])


def _beside(
    inputs: Inputs,
    place: str,
    heads: Sequence[str],
    formulas: int,
    ours: Callable[[Declaration], list[str]],
    theirs: Callable[[Traffic], Sequence[str | None]],
) -> pd.DataFrame:
    """What each variant of the rows declares, beside what a source prints at ``place``."""
    kernels = set(inputs.main["kernel"])
    declared = {
        label: one
        for label, one in inputs.declarations.items()
        if one.operation == OPERATION and kernel_name(label) in kernels
    }
    statements = [one for source in sources().values() for one in source.traffic]
    printed = {one.kernel: one for one in statements if one.at == place}
    others = sorted(declared.keys() - printed, key=lambda k: variant_order(k.replace(",", " ")))
    lines = []
    for label in [*printed, *others] if declared else []:
        they = theirs(printed[label]) if label in printed else [None] * len(heads)
        own = ours(declared[label]) if label in declared else [""] * len(heads)
        same = _same(own, they, formulas) if label in declared else "not declared"
        lines.append([label, *own, *they, same])
    columns = ["approach", *heads, *(f"{place[0]}: {head}" for head in heads), "equal"]
    return pd.DataFrame(lines, columns=columns)


def _same(declared: Sequence[str], printed: Sequence[str | None], formulas: int) -> str:
    """``yes`` where all that is printed is what is declared, the first as polynomials."""
    if not any(printed):
        return ""
    pairs = [*zip(declared, printed, strict=True)]
    try:
        same = [equal(ours, they) for ours, they in pairs[:formulas] if they]
    except ValueError:
        return "not comparable"
    return _yes(all(same) and all(ours == they for ours, they in pairs[formulas:] if they))


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


def _yes(answer: bool | None) -> str:
    return "" if answer is None else "yes" if answer else "no"


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
