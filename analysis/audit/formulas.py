"""What the audit asks of formulas: how many passes they count, their limits and their sums."""

from __future__ import annotations

from functools import cache

import sympy

from analysis.formula import M, N, expression


def terms(text: str) -> int:
    """How many passes a formula counts: the sum of its coefficients, 7 of ``5MN + 2M``."""
    return int(sum(sympy.Poly(expression(text), M, N).coeffs()))


@cache
def limit(one: str, other: str) -> float:
    """What one formula over another tends to as N grows."""
    return float(sympy.limit(expression(one) / expression(other), N, sympy.oo))


def total(*parts: str) -> sympy.Expr:
    """The sum of formulas."""
    return sympy.expand(sum((expression(part) for part in parts), sympy.Integer(0)))


def text(formula: sympy.Expr) -> str:
    """As printed: no signs between factors, widest term first."""
    terms_in_order = sympy.Poly(formula, M, N).terms(order="grlex")
    return " + ".join(_term(powers, int(coefficient)) for powers, coefficient in terms_in_order)


def _term(powers: tuple[int, int], coefficient: int) -> str:
    letters = "M" * powers[0] + "N" * powers[1]
    return letters if coefficient == 1 and letters else f"{coefficient}{letters}"
