"""A grid expands to the shapes it names, or says in one line why not; a card's datasheet."""

from __future__ import annotations

import math
import re
from typing import Any

import pytest

from experiments.data.cards import card_of
from experiments.data.jobs import MOST, expand


def test_a_grid_is_its_product_and_its_pairs_each_once_in_order() -> None:
    assert expand({"rows": [3, 1], "cols": 8, "shapes": [[1, 8], [2, 2]]}) == [
        (3, 8), (1, 8), (2, 2)
    ]  # fmt: skip
    assert expand({"rows": 7, "cols": {"first": 1, "last": 9, "step": 4}}) == [
        (7, 1), (7, 5), (7, 9)
    ]  # fmt: skip
    assert expand({"elements": [100, 4], "cols": [8, 33]}) == [(12, 8), (3, 33), (1, 8), (1, 33)]


def test_a_seed_draws_the_same_widths_each_time_half_of_them_odd_at_every_size() -> None:
    grid = {"elements": [2**25, 2**27], "drawn": 12}
    shapes = expand(grid | {"seed": 7})
    assert shapes == expand(grid | {"seed": 7})
    assert set(shapes).isdisjoint(expand(grid | {"seed": 8}))
    assert all(256 <= n <= 262144 for _, n in shapes)
    assert [n % 2 for _, n in shapes] == [0, 1] * 6
    assert [round(math.log2(m * n)) for m, n in shapes] == [25, 25, 27, 27] * 3


@pytest.mark.parametrize(
    ("grid", "named"),
    [
        ({}, "grid is empty"),
        ({"rows": 1}, "grid.cols"),
        ({"rows": 0, "cols": 1}, "grid.rows has 0"),
        ({"rows": 1, "cols": 1.5}, "grid.cols has 1.5"),
        ({"rows": 1, "cols": "1024"}, "grid.cols has '1024'"),
        ({"rows": True, "cols": 1}, "grid.rows has True"),
        ({"rows": [], "cols": 1}, "grid.rows is empty"),
        ({"rows": [1, None], "cols": 1}, "grid.rows has None"),
        ({"rows": 1, "cols": {"first": 1, "last": 9}}, "first, last and step"),
        ({"rows": 1, "cols": {"first": 1, "last": 9, "step": 0}}, "grid.cols.step has 0"),
        ({"rows": 1, "cols": {"first": 9, "last": 1, "step": 1}}, "grid.cols is empty"),
        ({"shapes": [[1]]}, "grid.shapes[0]"),
        ({"rows": 1, "cols": 1, "elements": [9]}, "grid.rows and grid.elements"),
        ({"cols": 1, "elements": [0]}, "grid.elements has 0"),
        ({"drawn": 2, "elements": [9]}, "grid.drawn needs grid.seed"),
        ({"shapes": [[1, 2], [3, 0]]}, "grid.shapes[1] has 0"),
        ({"shapes": ["11"]}, "pair"),
        ({"rows": 1, "cols": 2**40 + 1}, "grid.cols has 1099511627777"),
    ],
)
def test_wrong_shapes_are_refused_in_one_line(grid: dict[str, Any], named: str) -> None:
    with pytest.raises(ValueError, match=re.escape(named)) as refused:
        expand(grid)
    assert "\n" not in str(refused.value)


def test_a_slip_of_the_keyboard_is_refused_before_it_fills_memory() -> None:
    endless = {"first": 1, "last": 10**12, "step": 1}
    with pytest.raises(ValueError, match=str(MOST)):
        expand({"rows": endless, "cols": endless})


def test_l2_is_in_bytes_and_an_unknown_card_has_no_datasheet() -> None:
    assert card_of("NVIDIA A100-SXM4-80GB").l2_bytes == 40 * 2**20
    assert card_of("NVIDIA H200").peak_gbps == 4800
    card = card_of("Some Other Card")
    assert (card.name, card.peak_gbps, card.l2_bytes) == ("Some Other Card", None, None)
