from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.figures.draw import spread

GAP = 0.06
HEIGHTS = st.lists(st.floats(0, 1), max_size=16)


@given(HEIGHTS)
def test_names_never_overlap_or_leave_the_margin(wanted: list[float]) -> None:
    heights = sorted(spread(wanted, GAP))
    assert all(high - low >= GAP - 1e-9 for low, high in itertools.pairwise(heights))
    assert all(-1e-9 <= height <= 1 + 1e-9 for height in heights)


@given(HEIGHTS)
def test_names_keep_the_order_of_their_lines(wanted: list[float]) -> None:
    heights = spread(wanted, GAP)
    for i, j in ((i, j) for i in range(len(wanted)) for j in range(len(wanted))):
        if wanted[i] < wanted[j]:
            assert heights[i] < heights[j]


def test_names_with_room_stay_at_their_lines() -> None:
    assert spread([0.9, 0.1, 0.5], GAP) == pytest.approx([0.9, 0.1, 0.5])
    assert spread([0.5, 0.5], 0.1) == pytest.approx([0.45, 0.55])
