"""The worked example."""

from __future__ import annotations

import math

from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.published import Example, Source
from tests.analysis.audit.planted import source_with, verdict

quickly = settings(max_examples=25, deadline=None)

VALUES = st.lists(
    st.lists(st.integers(-16, 16).map(lambda n: n / 4), min_size=4, max_size=8),
    min_size=1,
    max_size=3,
).filter(lambda rows: len({len(row) for row in rows}) == 1)


def worked(rows: list[list[float]], digits: int = 3, block: int = 2) -> Example:
    """An example that is right, each number rounded to its digits."""
    tops = [max(row) for row in rows]
    powers = [[math.exp(x - top) for x in row] for row, top in zip(rows, tops, strict=True)]
    return Example(
        kernel="online",
        block=block,
        decimals=digits,
        input=rows,
        maxima=tops,
        sums=[round(sum(row), digits) for row in powers],
        block_sums=[
            round(sum(powers[0][start : start + block]), digits)
            for start in range(0, len(rows[0]), block)
        ],
        outputs=[[round(p / sum(row), digits) for p in row] for row in powers],
        row_sums=[1.0] * len(rows),
    )


def example(told: Example) -> dict[str, Source]:
    return source_with("C", example=told)


@quickly
@given(rows=VALUES)
def test_a_right_example_is_consistent_at_any_rounding(rows: list[list[float]]) -> None:
    told = example(worked(rows))
    for row in range(len(rows)):
        assert verdict(f"C-ex row {row + 1}", told) == "consistent"
        assert verdict(f"C-ex row {row + 1}, sum of outputs", told) == "consistent"
    assert verdict("C-ex row 1, block sums", told) == "consistent"


@quickly
@given(rows=VALUES, units=st.integers(3, 500), sign=st.sampled_from([-1, 1]))
def test_an_output_off_by_more_than_its_last_digit_is_found(
    rows: list[list[float]], units: int, sign: int
) -> None:
    right = worked(rows)
    first = list(right.outputs[0])
    first[0] += sign * units / 1000
    told = example(right.model_copy(update={"outputs": (tuple(first), *right.outputs[1:])}))
    assert verdict("C-ex row 1", told) == "wrong"


@quickly
@given(units=st.integers(1, 12))
def test_a_row_that_does_not_sum_is_found_beyond_its_last_digits(units: int) -> None:
    right = worked([[0.0] * 4])  # four quarters, each exact
    outputs = ((0.25 + units / 1000, 0.25, 0.25, 0.25),)
    told = example(right.model_copy(update={"outputs": outputs}))
    expected = "wrong" if units > 4 else "consistent"
    assert verdict("C-ex row 1, sum of outputs", told) == expected


@quickly
@given(units=st.integers(3, 100))
def test_a_sum_or_block_sum_that_is_off_is_found(units: int) -> None:
    right = worked([[0.0] * 4])
    off = right.model_copy(update={"sums": (4.0 + units / 1000,)})
    assert verdict("C-ex row 1", example(off)) == "wrong"
    assert verdict("C-ex row 1, block sums", example(off)) == "wrong"  # they add up to 4
    shifted = (2.0 - units / 1000, 2.0 + units / 1000)  # which still add up to 4
    off = right.model_copy(update={"block_sums": shifted})
    assert verdict("C-ex row 1, block sums", example(off)) == "wrong"
