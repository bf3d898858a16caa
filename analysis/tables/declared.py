"""A-tab1 and B-tab1: what variants declare, beside what the sources print and what was seen."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pandas as pd
import sympy

from analysis.figures.style import variant_order
from analysis.format import Cell, NamedTable, Table, thousands
from analysis.formula import N, equal, expression, latex
from analysis.load import Inputs
from analysis.published import OPERATION, Traffic, sources
from analysis.selection import name_variants
from analysis.traffic.levels import LIBRARY, NOMINAL, counted_verdict
from experiments.data.jobs import Declaration
from experiments.data.records import Count

TRAFFIC_NOTES = (
    "Elements. Declared: what each kernel declared when its rows were made. Formulas are "
    "compared as polynomials.",
    "Counted: the requests of one call, executed and instrumented, against the declared formula; "
    "nominal where a library's own kernel is assumed to read and write once.",
)
ON_CHIP_NOTE = (
    "On chip: O(N) where the declared elements per row grow with N, O(B) where they are the block "
    "size, else O(1). A variant takes any N unless what it holds on chip grows with N; "
    "nominally, where the library decides that itself."
)
ORDERS = ("O(1)", "O(B)", "O(N)")
Texts = Sequence[str | None]
NONE: Texts = (None, None, None)


def a_tab1(inputs: Inputs) -> list[NamedTable]:
    """Reads, writes and total: A's two approaches first, then all other variants."""
    lines = []
    for label, ours, they in _approaches(inputs, "A-tab1"):
        declared = (ours.reads, ours.writes, ours.formula) if ours else NONE
        printed = (they.reads, they.writes, they.total) if they else NONE
        verdict = _same(declared, printed) if ours else "not declared"
        counts = [c for c in inputs.records.counts if c.kernel == label]
        lines.append([label, *map(_cell, (*declared, *printed)), verdict, _counted(ours, counts)])
    heads = ["approach", "reads", "writes", "total", "A: reads", "A: writes", "A: total",
             "equal", "counted"]  # fmt: skip
    table = Table("A-tab1: memory traffic by approach", heads, lines, TRAFFIC_NOTES)
    return [NamedTable("a_tab1", table)]


def b_tab1(inputs: Inputs) -> list[NamedTable]:
    """Reads, on-chip memory and wide rows: B's three approaches first, then all others."""
    own = name_variants(inputs.frame[inputs.frame["operation"] == OPERATION])
    seen = own.assign(label=own["variant"].astype(str).str.replace(" ", ","))
    dtype = sources()["B"].dtype
    lines = []
    for label, ours, they in _approaches(inputs, "B-tab1"):
        declared = (ours.reads, _order(ours), _any_width(ours)) if ours else NONE
        wide = None if they is None or they.any_width is None else _yes(they.any_width)
        printed = (they.reads, they.on_chip, wide) if they else NONE
        verdict = _same(declared, printed, formulas=1) if ours else "not declared"
        cells = map(_cell, (*declared, *printed))
        lines.append([label, *cells, verdict, widths(seen, label, dtype)])
    heads = ["approach", "reads", "on chip per row", "any N", "B: reads", "B: on chip", "B: any N",
             "equal", f"widths in rows, {dtype}"]  # fmt: skip
    table = Table("B-tab1: on-chip memory and wide rows by approach", heads, lines, [ON_CHIP_NOTE])
    return [NamedTable("b_tab1", table)]


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


def _same(declared: Texts, printed: Texts, formulas: int = 3) -> str:
    """``yes`` where all that is printed is what is declared, the first as polynomials."""
    pairs = list(zip(declared, printed, strict=True))
    if printed == NONE:
        return "–"
    try:
        polynomials = [equal(str(ours), they) for ours, they in pairs[:formulas] if they]
    except ValueError:
        return "not comparable"
    return _yes(all(polynomials) and all(ours == they for ours, they in pairs[formulas:] if they))


def widths(seen: pd.DataFrame, label: str, dtype: str) -> str:
    """A sentence per GPU: the widest N that ran, and the narrowest that did not, with its reason.

    Args:
        seen: Rows with a column ``label``.
        label: The variant's label.
        dtype: Whose rows count; where there are none, those of all others do, by name.
    """
    mine = seen[seen["label"].eq(label) | seen["kernel"].eq(label)]
    if mine.empty:
        return "–"
    own = mine[mine["dtype"] == dtype]
    if own.empty:
        dtypes = sorted(set(mine["dtype"]))
        return "; ".join(f"{other}: {widths(mine, label, str(other))}" for other in dtypes)
    by_gpu = {str(gpu): _widest(rows) for gpu, rows in own.groupby("gpu", sort=True)}
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
    why = f": {first['reason']}" if first["reason"] else ""
    return f"{widest}; {first['status']} at {thousands(first['cols'])}{why}"


def _counted(ours: Declaration | None, counts: Sequence[Count]) -> str:
    if not counts:
        return "–"
    same_code = [c for c in counts if ours is None or c.source == ours.source]
    if not same_code:
        return "other code was counted"
    return f"{'; '.join(dict.fromkeys(map(_verdict, same_code)))} ({len(same_code)} counts)"


def _verdict(count: Count) -> str:
    if count.method == "none":
        return (count.reason or "not countable").split(":")[0]
    verdicts = {kind: counted_verdict(kind, count) for kind in ("reads", "writes")}
    if not count.difference:
        return ", ".join(dict.fromkeys(", ".join(verdicts.values()).split(", ")))
    alike = [f"{k} {verdict}" for k, verdict in verdicts.items() if verdict in ("exact", NOMINAL)]
    return "; ".join([*alike, *map(_without_model, count.difference.split("; "))])


def _without_model(difference: str) -> str:
    """A difference without the model, which stands in the same line of the table."""
    counted, _, rest = difference.partition(" where the model says ")
    return f"{counted}: {rest.partition(': ')[2]}" if rest else difference


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


def _cell(text: str | None) -> str:
    """A formula or an order as text and as LaTeX; a dash where there is none."""
    if text is None:
        return "–"
    if text in ORDERS:
        return Cell(text, f"${text}$")
    try:
        return Cell(text, latex(text))
    except ValueError:  # a formula of more than M and N, or of none
        return text
