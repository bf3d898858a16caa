"""The sources' own tables beside declarations: A-tab1, B-tab1, C-ex.

Formulas are compared as polynomials, and orders on chip are derived from declarations.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pandas as pd
import sympy

from analysis.figures.style import variant_order
from analysis.format import Table
from analysis.formula import N, equal, expression
from analysis.load import Inputs, kernel_name
from analysis.published import OPERATION, Line, compared, sources
from analysis.tables.frames import Named, table, texts
from experiments.data.jobs import Declaration

LIBRARY = ("torch", "inductor", "torchscript")  # they choose algorithms, or fuse operations


def a_tab1(inputs: Inputs) -> Named:
    """Reads, writes and total: A's two approaches first, then all other variants."""
    title = "A-tab1: memory traffic by approach"
    shown = _beside(inputs, "A-tab1", lambda one: [one.reads, one.writes, one.formula])
    yield "a_tab1", table(title, shown, texts("a_tab1"))


def b_tab1(inputs: Inputs) -> Named:
    """Reads, on-chip memory and wide rows: B's three approaches first, then all others."""
    title = "B-tab1: on-chip memory and wide rows by approach"
    shown = _beside(inputs, "B-tab1", lambda one: [one.reads, *_on_chip(one)])
    yield "b_tab1", table(title, shown, texts("b_tab1"))


def c_ex(inputs: Inputs) -> Named:
    """C's worked example recomputed, where rows hold the kernel that it is about."""
    if "online" in set(inputs.main["kernel"]):
        title = "C-ex: the worked example, recomputed"
        yield "c_ex", Table(title, Line._fields, compared(), texts("c_ex"))


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
