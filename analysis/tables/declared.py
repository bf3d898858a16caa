"""Which variants a declaration table lists, and how it writes their formulas."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from analysis.format import Cell
from analysis.formula import equal, latex
from analysis.lines import variant_order
from analysis.load import Declaration
from analysis.published import sources
from analysis.statements.moved import TrafficStatement

NEEDS = "variants.json with a softmax variant beside the rows (a sweep writes it)"


def softmax_variants(declared: Mapping[str, Declaration]) -> dict[str, Declaration]:
    """Softmax variants by label, in the order of the palette."""
    mine = [label for label, told in declared.items() if told.operation == "softmax"]
    return {
        label: declared[label]
        for label in sorted(mine, key=lambda label: variant_order(label.replace(",", " ")))
    }


def printed(place: str) -> dict[str, TrafficStatement]:
    """What the sources print at a place such as ``"A-tab1"``, by kernel, in their order."""
    told = [t for source in sources().values() for t in source.statements.traffic if t.at == place]
    return {statement.kernel: statement for statement in told}


def first(kernels: Iterable[str], labels: Iterable[str]) -> list[str]:
    """The kernels of a source, declared or not, then all other labels."""
    ours = list(kernels)
    return [*ours, *(label for label in labels if label not in ours)]


def formula_cell(text: str | None) -> str:
    """A formula as text and as LaTeX; a dash where there is none."""
    if text is None:
        return "–"
    try:
        return Cell(text, latex(text))
    except ValueError:  # a formula of more than M and N, or of none
        return text


def same(pairs: Iterable[tuple[str | None, str | None]]) -> str:
    """``yes`` where all pairs that are printed equal what is declared, as polynomials."""
    told = [(ours, theirs) for ours, theirs in pairs if theirs is not None]
    if not told:
        return "–"
    try:
        return "yes" if all(ours and equal(ours, theirs) for ours, theirs in told) else "no"
    except ValueError:
        return "not comparable"
