"""A grid's shapes: what ``rows``, ``cols`` and ``shapes`` of conf/grid/*.yaml stand for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

MOST = 100_000  # a sweep of more points is a slip of the keyboard
LARGEST = 1 << 40  # elements; a single row of it is beyond any device
_RANGE = {"first", "last", "step"}


def expand(grid: Mapping[str, Any]) -> list[tuple[int, int]]:
    """Every (rows, columns) of a grid once, in elements: ``rows`` × ``cols``, then ``shapes``.

    Args:
        grid: A composed grid; ``rows`` and ``cols`` each one size, a list of them, or
            ``{first, last, step}`` with both ends included; ``shapes`` a list of pairs.

    Raises:
        ValueError: in one line, which field is wrong and what would be right.
    """
    rows, cols = grid.get("rows"), grid.get("cols")
    if (rows is None) != (cols is None):
        given, lacking = ("rows", "cols") if cols is None else ("cols", "rows")
        raise ValueError(f"grid.{given} needs grid.{lacking} beside it")
    pairs = grid.get("shapes") or []
    if rows is None and not pairs:
        raise ValueError("the grid is empty: set grid.rows and grid.cols, or grid.shapes")
    ms, ns = (_axis("rows", rows), _axis("cols", cols)) if rows is not None else ([], [])
    if len(ms) * len(ns) + len(pairs) > MOST:
        raise ValueError(
            f"the grid has {len(ms) * len(ns) + len(pairs)} shapes; at most {MOST} are taken"
        )
    product = [(m, n) for m in ms for n in ns]
    return list(dict.fromkeys(product + [_pair(i, pair) for i, pair in enumerate(pairs)]))


def _axis(name: str, value: Any) -> Sequence[int]:
    if isinstance(value, Mapping):
        return _range(f"grid.{name}", value)
    if isinstance(value, Sequence) and not isinstance(value, str):
        if not value:
            raise ValueError(f"grid.{name} is empty; give at least one size")
        return [_size(f"grid.{name}", one) for one in value]
    return [_size(f"grid.{name}", value)]


def _range(name: str, value: Mapping[str, Any]) -> range:
    if set(value) != _RANGE:
        raise ValueError(f"{name} takes first, last and step, not {', '.join(map(str, value))}")
    first, last, step = (_size(f"{name}.{key}", value[key]) for key in ("first", "last", "step"))
    if last < first:
        raise ValueError(f"{name} is empty: its last, {last}, comes before its first, {first}")
    if (last - first) // step >= MOST:
        raise ValueError(f"{name} has more than {MOST} sizes, the most that are taken")
    return range(first, last + 1, step)


def _pair(index: int, pair: Any) -> tuple[int, int]:
    name = f"grid.shapes[{index}]"
    if isinstance(pair, str) or not isinstance(pair, Sequence) or len(pair) != 2:
        raise ValueError(f"{name} is {pair!r}; a shape is a pair [rows, columns]")
    return _size(name, pair[0]), _size(name, pair[1])


def _size(name: str, value: Any) -> int:
    if isinstance(value, int) and value > LARGEST:
        raise ValueError(f"{name} has {value}; no size above 2^40 is taken")
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"{name} has {value!r}, where a whole number of at least 1 belongs")
    return value
