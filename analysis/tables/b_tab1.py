"""B-tab1: reads, on-chip bytes a row and wide rows, declared, printed by B and seen in rows."""

from __future__ import annotations

import pandas as pd
import sympy

from analysis.agreement import LIBRARY
from analysis.format import Cell, Table
from analysis.formula import N, expression
from analysis.load import Declaration, Inputs
from analysis.published import sources
from analysis.selection import name_variants
from analysis.tables.declared import NEEDS, first, formula_cell, printed, same, softmax_variants
from analysis.tables.named import NamedTable
from analysis.tables.widths import widths_told

Cells = list[str | None]
NOTES = (
    "On chip: O(N) where the declared elements a row grow with N, O(B) where they are the block "
    "size, else O(1). A variant takes any N unless what it holds on chip grows with N; "
    "nominally, where that is the library's own affair.",
)


def b_tab1(material: Inputs) -> NamedTable | str:
    """B's three approaches first, then all other variants; or what is missing."""
    declared = softmax_variants(material.declarations)
    if not declared:
        return f"b_tab1 needs {NEEDS}"
    theirs, dtype = printed("B-tab1"), sources()["B"].dtype
    seen = _seen(material.frame)
    lines = []
    for label in first(theirs, declared):
        ours, they = declared.get(label), theirs.get(label)
        told: Cells = [ours.reads, _order(ours), _large(ours)] if ours else [None] * 3
        large = None if they is None or they.any_width is None else _yes(they.any_width)
        said: Cells = [they.reads, they.on_chip, large] if they else [None] * 3
        lines.append(
            [label, formula_cell(told[0]), _order_cell(told[1]), told[2] or "–",
             formula_cell(said[0]), _order_cell(said[1]), said[2] or "–",
             _equal(told, said) if ours else "not declared", widths_told(seen, label, dtype)]
        )  # fmt: skip
    heads = ["approach", "reads", "on chip a row", "any N", "B: reads", "B: on chip", "B: any N",
             "equal", f"widths in rows, {dtype}"]  # fmt: skip
    title = "B-tab1: on-chip memory and wide rows by approach"
    return NamedTable("b_tab1", Table(title, heads, lines, NOTES))


def _seen(frame: pd.DataFrame) -> pd.DataFrame:
    """Softmax rows, each under its declared label."""
    named = name_variants(frame[frame["operation"] == "softmax"])
    return named.assign(label=named["variant"].astype(str).str.replace(" ", ","))


def _order(told: Declaration) -> str:
    try:
        held = expression(told.on_chip)
    except ValueError:
        return told.on_chip
    if isinstance(held, sympy.Piecewise):  # what counts is how it ends, at the widest rows
        held = held.args[-1].expr
    if N in held.free_symbols:
        return "O(N)"
    return "O(B)" if held == told.params.get("block_size") else "O(1)"


def _large(told: Declaration) -> str:
    grows = _order(told) == "O(N)"
    nominal = grows and told.backend in LIBRARY
    return ("nominally " if nominal else "") + _yes(not grows)


def _yes(large: bool) -> str:
    return "yes" if large else "no"


def _order_cell(order: str | None) -> str:
    if order is None:
        return "–"
    return Cell(order, f"${order}$") if order in ("O(1)", "O(B)", "O(N)") else order


def _equal(told: Cells, said: Cells) -> str:
    reads = same([(told[0], said[0])])
    rest = [ours == they for ours, they in zip(told[1:], said[1:], strict=True) if they]
    if reads == "–" and not rest:
        return "–"
    return "yes" if reads in ("yes", "–") and all(rest) else "no"
