"""Rules: statements about launches against the defaults and units of their parameters."""

from __future__ import annotations

from collections.abc import Iterator

import sympy
from sympy.parsing.sympy_parser import parse_expr

from analysis.audit.finding import Finding
from analysis.audit.known import Known


def tuned(known: Known) -> Iterator[Finding]:
    """A value that tuning found is one that would not have come without it."""
    facts = known.facts
    default = facts.default_warps.value * facts.warp_threads.value
    for letter, source in known.sources.items():
        for told in source.statements.tuned:
            yield Finding(
                letter,
                f"{told.at}, threads a block",
                "wrong" if told.threads == default else "consistent",
                f"tuned to {told.threads}",
                f"default {default}",
                f"{facts.default_warps.value} warps of {facts.warp_threads.value} threads are the "
                f"default ({facts.default_warps.source}): {default} without any tuning.",
            )


def scopes(known: Known) -> Iterator[Finding]:
    """A launch parameter counts for what its documentation says."""
    for letter, source in known.sources.items():
        for told in source.statements.scopes:
            fact = known.facts.scopes[told.parameter]
            yield Finding(
                letter,
                f"{told.at} {told.parameter}",
                "consistent" if told.scope == fact.value else "wrong",
                f"per {told.scope}",
                f"per {fact.value}",
                f"It counts per {fact.value} ({fact.source}).",
            )


def occupancy(known: Known) -> Iterator[Finding]:
    """A formula divides by nothing that may be zero."""
    least = known.facts.least
    symbols = {name: sympy.Symbol(name, nonnegative=True) for name in least}
    for letter, source in known.sources.items():
        for told in source.statements.occupancy:
            formula = parse_expr(
                told.formula.replace("·", "*"), {"min": sympy.Min, **symbols}, evaluate=False
            )
            under = {p.base for p in formula.atoms(sympy.Pow) if p.exp.is_negative}
            divisors = sorted({str(s) for base in under for s in base.free_symbols})
            zeros = [name for name in divisors if least[name].value == 0]
            why = "; ".join(f"{name} may be 0: {least[name].source}" for name in zeros)
            yield Finding(
                letter,
                told.at,
                "wrong" if zeros else "consistent",
                told.formula,
                f"a division by 0 where {' or '.join(zeros)} is 0" if zeros else "always a number",
                f"{why or 'No divisor may be 0: ' + ', '.join(divisors)}.",
            )
