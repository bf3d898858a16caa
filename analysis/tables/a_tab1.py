"""A-tab1: reads, writes and total of every variant, declared, printed by A and counted."""

from __future__ import annotations

from collections.abc import Sequence

from analysis.agreement import counted_verdict
from analysis.format import Table
from analysis.load import Declaration, Inputs
from analysis.tables.declared import NEEDS, first, formula_cell, printed, same, softmax_variants
from analysis.tables.named import NamedTable
from experiments.data.records import Count

NOTES = (
    "Elements. Declared: what each kernel said of itself when its rows were made. Formulas are "
    "compared as polynomials.",
    "Counted: the requests of one call, executed and instrumented, against the declared formula; "
    "nominal where a library's own kernel is taken to read and write once.",
)


def a_tab1(material: Inputs) -> NamedTable | str:
    """A's two approaches first, then all other variants; or what is missing."""
    declared = softmax_variants(material.declarations)
    if not declared:
        return f"a_tab1 needs {NEEDS}"
    theirs = printed("A-tab1")
    lines = []
    for label in first(theirs, declared):
        ours, they = declared.get(label), theirs.get(label)
        told = (ours.reads, ours.writes, ours.formula) if ours else (None,) * 3
        said = (they.reads, they.writes, they.total) if they else (None,) * 3
        equal = same(zip(told, said, strict=True)) if ours else "not declared"
        cells = [formula_cell(text) for text in (*told, *said)]
        lines.append([label, *cells, equal, _counted(label, ours, material.records.counts)])
    heads = ["approach", "reads", "writes", "total", "A: reads", "A: writes", "A: total",
             "equal", "counted"]  # fmt: skip
    return NamedTable("a_tab1", Table("A-tab1: memory traffic by approach", heads, lines, NOTES))


def _counted(label: str, ours: Declaration | None, counts: Sequence[Count]) -> str:
    mine = [c for c in counts if c.kernel == label]
    if not mine:
        return "–"
    same_code = [c for c in mine if ours is None or c.source == ours.source]
    if not same_code:
        return "other code was counted"
    verdicts = dict.fromkeys(_verdict(count) for count in same_code)
    return f"{'; '.join(verdicts)} ({len(same_code)} counts)"


def _verdict(count: Count) -> str:
    if count.method == "none":
        return (count.reason or "not countable").split(":")[0]
    if count.difference:
        told = list(map(_shortly, count.difference.split("; ")))
        same = [f"{kind} exact" for kind in ("reads", "writes") if _is_exact(kind, count)]
        return "; ".join([*same, *told])
    return ", ".join(dict.fromkeys(counted_verdict(kind, count) for kind in ("reads", "writes")))


def _is_exact(kind: str, count: Count) -> bool:
    return counted_verdict(kind, count) == "exact"


def _shortly(difference: str) -> str:
    """Without the model, which stands in the same line of the table."""
    counted, _, rest = difference.partition(" where the model says ")
    return f"{counted}: {rest.partition(': ')[2]}" if rest else difference
