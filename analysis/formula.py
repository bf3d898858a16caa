"""Formulas as kernels declare and sources print them, ``8MN + 4M``, as expressions in M and N."""

from __future__ import annotations

import re
from functools import cache

import sympy

M, N = sympy.symbols("M N", integer=True, positive=True)
_CASES = re.compile(r"(?P<small>[^<≤]+) if N (?P<sign>≤|<) (?P<width>\d{1,18}) else (?P<large>.+)")
_ONE = r"(?=[\dMN])\d{0,18}M?N?"
_POLYNOMIAL = re.compile(rf"-?{_ONE}(?: [+-] {_ONE})*")


@cache
def expression(text: str) -> sympy.Expr:
    """The formula, also one of two cases: ``2MN if N ≤ 4096 else 4MN``.

    Raises:
        ValueError: it is not a formula in M and N.
    """
    if cases := _CASES.fullmatch(text):
        width = int(cases["width"])
        small = width >= N if cases["sign"] == "≤" else width > N
        return sympy.Piecewise(
            (expression(cases["small"]), small), (expression(cases["large"]), True)
        )
    # sympy's parser runs what it is given: it is given nothing but such terms
    if not _POLYNOMIAL.fullmatch(text):
        raise ValueError(f"{text!r} is not a formula in M and N, such as 8MN + 4M")
    product = re.sub(r"(?<=[\dM])(?=[MN])", "*", text)
    return sympy.parse_expr(product, local_dict={"M": M, "N": N})


@cache
def elements(text: str, rows: int, cols: int) -> int:
    """The formula's value at a shape."""
    return int(expression(text).subs({M: rows, N: cols}))


@cache
def equal(one: str, other: str) -> bool:
    """Whether two formulas are the same for every shape."""
    return bool(sympy.simplify(expression(one) - expression(other)) == 0)
