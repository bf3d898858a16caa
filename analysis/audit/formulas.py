"""Formulas as they are printed, ``8MN + 4M``, as expressions in M and N."""

from __future__ import annotations

import re
from functools import cache

import sympy
from sympy.parsing.sympy_parser import (
    implicit_multiplication,
    parse_expr,
    split_symbols,
    standard_transformations,
)

M, N = sympy.symbols("M N", positive=True)
_RULES = (*standard_transformations, split_symbols, implicit_multiplication)
_CASES = re.compile(r"(?P<small>.+) if N ≤ (?P<width>\d+) else (?P<large>.+)")


@cache
def expression(text: str) -> sympy.Expr:
    """The formula, also one of two cases: ``2MN if N ≤ 4096 else 4MN``.

    Raises:
        ValueError: it is no formula in M and N.
    """
    cases = _CASES.fullmatch(text)
    if cases is not None:
        small, large = expression(cases["small"]), expression(cases["large"])
        return sympy.Piecewise((small, int(cases["width"]) >= N), (large, True))
    if re.search(r"[^0-9MN+*() ]", text):
        raise ValueError(f"{text!r} is no formula in M and N, such as 8MN + 4M")
    return sympy.expand(parse_expr(text, {"M": M, "N": N}, _RULES))


@cache
def elements(text: str, rows: int, cols: int) -> int:
    """The formula's value at a shape."""
    return int(expression(text).subs({M: rows, N: cols}))


def terms(text: str) -> int:
    """How many passes a formula counts: the sum of its coefficients, 7 of ``5MN + 2M``."""
    return int(sum(sympy.Poly(expression(text), M, N).coeffs()))


@cache
def equal(one: str, other: str) -> bool:
    """Whether two formulas are the same for every shape."""
    return bool(sympy.expand(expression(one) - expression(other)) == 0)


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
