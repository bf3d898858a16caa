"""How a count differs from its model, in the model's own words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import sympy

from kernels.kernel import Kernel
from kernels.traffic import evaluate, formula


def difference(kernel: Kernel, sizes: Mapping[str, int], tensors: Sequence[Any]) -> str | None:
    """One sentence, e.g. ``reads 2MN where the model says MN``, or None where all is equal.

    Args:
        kernel: It declares the model.
        sizes: Symbol name to size.
        tensors: The counts of its tensors, each with ``name dtype loads stores``.
    """
    model = kernel.traffic()
    symbols = kernel.operation.symbols
    parts = [
        _one("reads", model.reads, symbols, sizes, tensors, "loads"),
        _one("writes", model.writes, symbols, sizes, tensors, "stores"),
    ]
    return "; ".join(filter(None, parts)) or None


def _one(
    verb: str,
    model: sympy.Expr,
    symbols: Sequence[str],
    sizes: Mapping[str, int],
    tensors: Sequence[Any],
    field: str,
) -> str | None:
    said = evaluate(model, sizes)
    counted = sum(tensor[field] for tensor in tensors)
    if counted == said:
        return None
    model = _branch(model, sizes)
    excess = _in_units(counted - said, symbols, sizes)
    if excess is None:
        text = f"{verb} {counted} elements where the model says {said}, {formula(model)}"
    else:
        text = (
            f"{verb} {formula(sympy.expand(model + excess))} where the model says {formula(model)}"
        )
    # eager operations may write an index beside a value, which no formula of the papers counts
    indices = [t for t in tensors if t[field] and "int" in t["dtype"]]
    if indices and sum(t[field] for t in indices) == counted - said:
        text += ": " + " and ".join(f"{t['name']} ({t['dtype']})" for t in indices)
    return text


def _branch(model: sympy.Expr, sizes: Mapping[str, int]) -> sympy.Expr:
    """What a formula with cases says at these sizes."""
    if isinstance(model, sympy.Piecewise):
        for value, condition in model.args:
            if condition.subs({s: sizes[str(s)] for s in condition.free_symbols}) == sympy.true:
                return value
    return model


def _in_units(elements: int, symbols: Sequence[str], sizes: Mapping[str, int]) -> sympy.Expr | None:
    """A number of elements as whole matrices and whole columns, None where it is no such sum."""
    matrix, column = prod(sizes[s] for s in symbols), sizes[symbols[0]]
    if not matrix:
        return None
    sign = 1 if elements > 0 else -1
    # a matrix of one column is told as columns, which is what indices and statistics are
    whole, rest = divmod(abs(elements), matrix) if matrix > column else (0, abs(elements))
    columns, left = divmod(rest, column)
    if left:
        return None
    named = [sympy.Symbol(s, integer=True, nonnegative=True) for s in symbols]
    return sign * (whole * sympy.prod(named) + columns * named[0])
