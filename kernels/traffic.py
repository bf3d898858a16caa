"""The memory traffic of a kernel, as formulas in the symbols of its operation's shape.

Formulas count elements of the point's dtype, and bytes for arrays with a fixed dtype (an int64
target, a float32 loss). A formula prints as the papers write it (``8MN + 4M``) and evaluates to
whole elements. Traffic that depends on the shape is a ``sympy.Piecewise``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any

import sympy

M = sympy.Symbol("M", integer=True, nonnegative=True)
N = sympy.Symbol("N", integer=True, nonnegative=True)
_BYTE = sympy.Dummy("byte")  # marks bytes in a sum of bytes and elements


def tunable(name: str) -> sympy.Symbol:
    """The value of a kernel's tunable, a positive whole number, in a formula of its class."""
    return sympy.Symbol(name, integer=True, positive=True)


def by_width(widest: Any, narrow: Any, wide: Any) -> sympy.Expr:
    """One formula for rows of up to ``widest`` columns, and another for wider ones."""
    narrow, wide = sympy.sympify(narrow), sympy.sympify(wide)
    return sympy.Piecewise((narrow, sympy.Le(N, widest)), (wide, True))


def parts_of(width: int) -> sympy.Expr:
    """The number of parts of a row, of so many columns each: ⌈N/width⌉."""
    return sympy.ceiling(N / sympy.Integer(width))


BLOCK_SIZE = tunable("block_size")


@dataclass(frozen=True)
class Traffic:
    """The traffic of one call with global memory: expressions in the operation's symbols."""

    reads: sympy.Expr  # elements of the point's dtype
    writes: sympy.Expr = sympy.S.Zero
    read_bytes: sympy.Expr = sympy.S.Zero  # of arrays with a fixed dtype
    write_bytes: sympy.Expr = sympy.S.Zero

    def each(self, change: Callable[[sympy.Expr], sympy.Expr]) -> Traffic:
        """The traffic with each of its formulas changed."""
        return Traffic(*(change(getattr(self, field.name)) for field in fields(self)))

    @property
    def further(self) -> sympy.Expr:
        """Bytes of arrays with a fixed dtype, reads plus writes."""
        return sympy.piecewise_fold(self.read_bytes + self.write_bytes)

    def elements(self, sizes: Mapping[str, int]) -> tuple[int, int]:
        """Reads and writes, in elements, as `evaluate` finds them."""
        return evaluate(self.reads, sizes), evaluate(self.writes, sizes)

    def bytes(self, sizes: Mapping[str, int], itemsize: int) -> int:
        """Bytes moved in all at these sizes, where an element has ``itemsize``."""
        return sum(self.elements(sizes)) * itemsize + evaluate(self.further, sizes)

    def __str__(self) -> str:
        # elements and bytes share their cases
        whole = sympy.piecewise_fold(self.reads + self.writes + _BYTE * self.further)
        parts = whole.args if isinstance(whole, sympy.Piecewise) else ((whole, sympy.true),)
        cases = []
        for one, where in parts:
            further = sympy.expand(one).coeff(_BYTE)
            text = formula(one.subs(_BYTE, 0))
            cases.append((text + (f" + {formula(further)} bytes" if further else ""), where))
        return _in_cases(cases)


def evaluate(expression: sympy.Expr, sizes: Mapping[str, int]) -> int:
    """An expression's value at whole sizes (symbol name to size), as an exact integer.

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
    parts = expression.args if isinstance(expression, sympy.Piecewise) else [(expression, True)]
    return _in_cases((_polynomial(value), where) for value, where in parts)


def _in_cases(cases: Iterable[tuple[str, Any]]) -> str:
    whole = "".join(
        text + (f" if {where} else " if where != sympy.true else "") for text, where in cases
    )
    return whole.replace("<=", "≤").replace(">=", "≥")


def _polynomial(expression: Any) -> str:
    text = str(sympy.sstr(expression, order="grlex"))
    plain = sympy.sympify(expression).replace(sympy.ceiling, lambda _: sympy.Dummy())
    if not plain.is_polynomial():
        return text
    text = re.sub(r"ceiling\(((?:[^()]|\([^()]*\))*)\)", r"⌈\1⌉", text)
    return text.replace("**", "^").replace("*", "")
