"""A grid expands to the shapes it names, each once and in order, or says in one line why not."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.data.jobs import MOST, expand

sizes = st.integers(1, 10**6)
axes = st.one_of(sizes, st.lists(sizes, min_size=1, max_size=9))


@given(rows=axes, cols=axes, shapes=st.lists(st.tuples(sizes, sizes).map(list), max_size=9))
def test_grid_is_its_product_and_its_pairs_each_once_in_order(
    rows: Any, cols: Any, shapes: list[list[int]]
) -> None:
    found = expand({"rows": rows, "cols": cols, "shapes": shapes})
    ms, ns = ([a] if isinstance(a, int) else a for a in (rows, cols))
    named = [(m, n) for m in ms for n in ns] + [(m, n) for m, n in shapes]
    assert set(found) == set(named)
    assert sorted(found, key=named.index) == found
    assert len(found) == len(set(found))


@given(first=st.integers(1, 999), step=st.integers(1, 99), count=st.integers(1, 99))
def test_range_holds_both_its_ends(first: int, step: int, count: int) -> None:
    last = first + step * (count - 1)
    found = expand({"rows": 7, "cols": {"first": first, "last": last, "step": step}})
    assert (found[0], found[-1], len(found)) == ((7, first), (7, last), count)


@pytest.mark.parametrize(
    ("grid", "named"),
    [
        ({}, "grid is empty"),
        ({"rows": 1}, "grid.cols"),
        ({"cols": 1}, "grid.rows"),
        ({"rows": 0, "cols": 1}, "grid.rows has 0"),
        ({"rows": 1, "cols": -781}, "grid.cols has -781"),
        ({"rows": 1, "cols": 1.5}, "grid.cols has 1.5"),
        ({"rows": 1, "cols": "1024"}, "grid.cols has '1024'"),
        ({"rows": True, "cols": 1}, "grid.rows has True"),
        ({"rows": [], "cols": 1}, "grid.rows is empty"),
        ({"rows": [1, None], "cols": 1}, "grid.rows has None"),
        ({"rows": 1, "cols": {"first": 1, "last": 9}}, "first, last and step"),
        ({"rows": 1, "cols": {"first": 1, "last": 9, "stop": 1}}, "first, last and step"),
        ({"rows": 1, "cols": {"first": 1, "last": 9, "step": 0}}, "grid.cols.step has 0"),
        ({"rows": 1, "cols": {"first": 9, "last": 1, "step": 1}}, "grid.cols is empty"),
        ({"shapes": [[1]]}, "grid.shapes[0]"),
        ({"shapes": [[1, 2], [3, 0]]}, "grid.shapes[1] has 0"),
        ({"shapes": [[1, 2, 3]]}, "pair"),
        ({"shapes": ["11"]}, "pair"),
    ],
)
def test_wrong_shapes_are_refused_in_one_line(grid: dict[str, Any], named: str) -> None:
    with pytest.raises(ValueError, match=re.escape(named)) as refused:
        expand(grid)
    assert "\n" not in str(refused.value)


def test_a_slip_of_the_keyboard_is_refused_before_it_fills_memory() -> None:
    endless = {"first": 1, "last": 10**15, "step": 1}
    with pytest.raises(ValueError, match=str(MOST)):
        expand({"rows": endless, "cols": endless})
