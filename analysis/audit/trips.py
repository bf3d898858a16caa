"""Rule: trips through memory are the passes that a source's own formulas count."""

from __future__ import annotations

from collections.abc import Iterator

import sympy

from analysis.audit.finding import Finding
from analysis.audit.formulas import terms
from analysis.audit.known import Known
from analysis.formula import M, N, expression
from analysis.statements.moved import TrafficStatement, Trips


def trips(known: Known) -> Iterator[Finding]:
    """One way of counting must give every number: all passes, or those over the matrix alone."""
    for letter, source in known.sources.items():
        for told in source.statements.trips:
            for traffic in source.statements.traffic:
                if traffic.kernel == told.kernel and traffic.reads and traffic.writes:
                    yield _held(letter, told, traffic)


def _held(letter: str, told: Trips, traffic: TrafficStatement) -> Finding:
    formulas = {"reads": str(traffic.reads), "writes": str(traffic.writes)}
    every = {what: terms(formula) for what, formula in formulas.items()}
    wide = {what: _wide(formula) for what, formula in formulas.items()}
    ways = [{**way, "total": sum(way.values())} for way in (every, wide)]
    printed = {"reads": told.reads, "writes": told.writes, "total": told.total}
    given = {what: count for what, count in printed.items() if count is not None}
    agrees = any(all(way[what] == count for what, count in given.items()) for way in ways)
    counted = [
        f"its {given[what]} {what} {_counted(given[what], every[what], wide[what])}"
        for what in formulas
        if what in given
    ]
    left = "; ".join(["", *counted]) if not agrees else ""
    return Finding(
        letter,
        f"{told.at} {told.kernel}",
        "consistent" if agrees else "wrong",
        ", ".join(f"{what} {count}" for what, count in given.items()),
        " or ".join(dict.fromkeys(", ".join(f"{w} {way[w]}" for w in given) for way in ways)),
        f"{traffic.at} counts {formulas['reads']} reads and {formulas['writes']} writes{left}.",
    )


def _counted(printed: int, every: int, wide: int) -> str:
    if printed == every:
        return f"count the {every - wide} of M elements too" if every != wide else "are all"
    if printed == wide:
        return f"leave out the {every - wide} of M elements"
    return "are neither all nor those of the matrix"


def _wide(formula: str) -> int:
    return int(sympy.Poly(expression(formula), M, N).coeff_monomial(M * N))
