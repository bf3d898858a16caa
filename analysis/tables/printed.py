"""The sources' own tables beside declarations: A-tab1, B-tab1, C-ex.

Formulas are compared as polynomials, and orders on chip are derived from declarations.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import pandas as pd
import sympy

from analysis.figures.style import variant_order
from analysis.figures.traffic import LIBRARY
from analysis.format import Table
from analysis.formula import N, equal, expression
from analysis.load import Inputs, kernel_name
from analysis.published import OPERATION, sources
from analysis.tables.frames import Named, table, texts
from analysis.worked_example import HEADS, compared
from experiments.data.jobs import Declaration


def a_tab1(inputs: Inputs) -> Named:
    """Reads, writes and total: A's two approaches first, then all other variants."""
    heads = {"reads": "reads", "writes": "writes", "total": "total"}
    shown = _beside(inputs, "A-tab1", heads, lambda ours: [ours.reads, ours.writes, ours.formula])
    yield "a_tab1", table("A-tab1: memory traffic by approach", shown, texts("a_tab1"))


def b_tab1(inputs: Inputs) -> Named:
    """Reads, on-chip memory and wide rows: B's three approaches first, then all others."""
    heads = {"reads": "reads", "on chip": "on_chip", "any N": "any_width"}
    shown = _beside(inputs, "B-tab1", heads, lambda o: [o.reads, _order(o), _any_width(o)])
    title = "B-tab1: on-chip memory and wide rows by approach"
    yield "b_tab1", table(title, shown, texts("b_tab1"))


def _beside(
    inputs: Inputs,
    place: str,
    heads: Mapping[str, str],
    ours: Callable[[Declaration], list[str]],
) -> pd.DataFrame:
    """The declarations of the rows' variants beside the table of a source.

    Args:
        inputs: Rows and declarations.
        place: The source's table.
        heads: By column the field that holds the source's own.
        ours: The cells of a declaration.
    """
    kernels = set(inputs.main["kernel"])
    declared = {
        label: ours(one)
        for label, one in inputs.declarations.items()
        if one.operation == OPERATION and kernel_name(label) in kernels
    }
    statements = [one for source in sources().values() for one in source.traffic]
    printed = {one.kernel: one for one in statements if one.at == place}
    others = sorted(declared.keys() - printed, key=lambda k: variant_order(k.replace(",", " ")))
    lines = []
    for label in [*printed, *others] if declared else []:
        they = [_text(getattr(printed.get(label), field, None)) for field in heads.values()]
        own = declared.get(label, [""] * len(heads))
        same = _same(own, they) if label in declared else "not declared"
        lines.append([label, *own, *they, same])
    columns = ["approach", *heads, *(f"{place[0]}: {head}" for head in heads), "equal"]
    return pd.DataFrame(lines, columns=columns)


def _same(declared: Sequence[str], printed: Sequence[str]) -> str:
    """``yes`` where every printed cell is the declared one, formulas as polynomials."""
    pairs = [(ours, they) for ours, they in zip(declared, printed, strict=True) if they]
    return _text(all(ours == they or _equal(ours, they) for ours, they in pairs) if pairs else None)


def _equal(ours: str, they: str) -> bool:
    try:
        return equal(ours, they)
    except ValueError:  # one of them is no formula
        return False


def _order(declared: Declaration) -> str:
    try:
        held = expression(declared.on_chip)
    except ValueError:
        return declared.on_chip
    if isinstance(held, sympy.Piecewise):  # the case of the widest rows counts
        held = held.args[-1].expr
    if N in held.free_symbols:
        return "O(N)"
    return "O(B)" if held == declared.params.get("block_size") else "O(1)"


def _any_width(declared: Declaration) -> str:
    grows = _order(declared) == "O(N)"
    return f"{'nominally ' if grows and declared.backend in LIBRARY else ''}{_text(not grows)}"


def _text(cell: str | bool | None) -> str:
    """A cell: a text, or an answer in a word."""
    return cell if isinstance(cell, str) else {None: "", True: "yes"}.get(cell, "no")


def c_ex(inputs: Inputs) -> Named:
    """C's worked example recomputed, where rows hold the kernel that it is about."""
    if "online" in set(inputs.main["kernel"]):
        lines = [one.cells() for one in compared()]
        yield "c_ex", Table("C-ex: the worked example, recomputed", HEADS, lines, texts("c_ex"))
