"""How much a kernel moves, as formulas in the symbols of its operation's shape.

It is counted in elements of the point's dtype, and in bytes where an array has a dtype of its own
(an int64 target, a float32 loss). A formula prints as the papers write it (``8MN + 4M``), renders
as LaTeX and evaluates to whole elements. Traffic that depends on the shape is a
``sympy.Piecewise``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import sympy

M = sympy.Symbol("M", integer=True, nonnegative=True)
N = sympy.Symbol("N", integer=True, nonnegative=True)


@dataclass(frozen=True)
class Traffic:
    """What one call reads from and writes to global memory.

    Attributes:
        reads: Elements loaded of the point's dtype, an expression in the operation's symbols.
        writes: Elements stored, likewise.
        read_bytes: Bytes loaded beside them, of arrays that have a dtype of their own.
        write_bytes: Bytes stored, likewise.
    """

    reads: sympy.Expr
    writes: sympy.Expr
    read_bytes: sympy.Expr = sympy.S.Zero
    write_bytes: sympy.Expr = sympy.S.Zero

    @property
    def total(self) -> sympy.Expr:
        """Elements moved in all, reads plus writes."""
        return sympy.piecewise_fold(self.reads + self.writes)

    @property
    def further(self) -> sympy.Expr:
        """Bytes moved beside them, reads plus writes."""
        return sympy.piecewise_fold(self.read_bytes + self.write_bytes)

    def elements(self, sizes: Mapping[str, int]) -> tuple[int, int]:
        """Reads and writes, in elements, at the given sizes (symbol name to size).

        Raises:
            ValueError: a symbol of the formula has no size.
        """
        return evaluate(self.reads, sizes), evaluate(self.writes, sizes)

    def bytes(self, sizes: Mapping[str, int], itemsize: int) -> int:
        """Bytes moved in all, at the given sizes, where an element has ``itemsize``.

        Raises:
            ValueError: a symbol of the formula has no size.
        """
        return sum(self.elements(sizes)) * itemsize + evaluate(self.further, sizes)

    def __str__(self) -> str:
        return formula(self.total) + (f" + {formula(self.further)} bytes" if self.further else "")

    def latex(self) -> str:
        """The total as LaTeX, without delimiters."""
        text = str(sympy.latex(self.total, order="grlex", mul_symbol=None))
        if not self.further:
            return text
        return f"{text} + {sympy.latex(self.further, mul_symbol=None)}\\ \\mathrm{{bytes}}"


def evaluate(expression: sympy.Expr, sizes: Mapping[str, int]) -> int:
    """An expression's value at whole sizes, as an exact integer.

    Raises:
        ValueError: a symbol has no size, or the value is not a whole number.
    """
    return _value(sympy.sympify(expression), tuple(sizes.items()))


@lru_cache(maxsize=1 << 16)  # many ask for the same, and SymPy takes its time
def _value(expression: sympy.Expr, given: tuple[tuple[str, int], ...]) -> int:
    sizes = dict(given)
    missing = {str(s) for s in expression.free_symbols} - set(sizes)
    if missing:
        raise ValueError(f"the formula {expression} needs sizes for {sorted(missing)}")
    values = {s: sympy.Integer(sizes[str(s)]) for s in expression.free_symbols}
    value = expression.subs(values)
    if not value.is_integer:
        raise ValueError(f"the formula {expression} gives {value}, not a whole number")
    return int(value)


def formula(expression: sympy.Expr) -> str:
    """An expression as the papers print it: ``8MN + 4M``, ``2MN if N ≤ 1024 else 4MN``.

    A quotient rounded up prints as ``M⌈N/4096⌉``.
    """
    if not isinstance(expression, sympy.Piecewise):
        return _polynomial(expression)
    text = ""
    for value, condition in expression.args:
        text += _polynomial(value)
        if condition != sympy.true:
            text += f" if {_condition(condition)} else "
    return text


def _polynomial(expression: Any) -> str:
    text = str(sympy.sstr(expression, order="grlex"))
    plain = sympy.sympify(expression).replace(sympy.ceiling, lambda _: sympy.Dummy())
    if not plain.is_polynomial():
        return text
    text = re.sub(r"ceiling\(((?:[^()]|\([^()]*\))*)\)", r"⌈\1⌉", text)
    return text.replace("**", "^").replace("*", "")


def _condition(condition: Any) -> str:
    return str(condition).replace("<=", "≤").replace(">=", "≥")
