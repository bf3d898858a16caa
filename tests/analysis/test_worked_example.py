"""C-ex: the worked example by a plain reference."""

from __future__ import annotations

import math

import pytest

from analysis.worked_example import ExampleRow, confirmed, example_rows, example_table, printed


def test_the_reference_is_the_softmax_of_the_input_that_c_prints() -> None:
    for row, x in zip(example_rows(), printed().input, strict=True):
        exponentials = [math.exp(value - max(x)) for value in x]
        assert row.blocks[-1] == pytest.approx((max(x), sum(exponentials)), rel=1e-6)
        assert row.outputs == pytest.approx([e / sum(exponentials) for e in exponentials], rel=1e-6)
        assert len(row.blocks) == len(row.added) == 2


def test_a_later_maximum_rescales_the_sum_before_it() -> None:
    row = ExampleRow.of([1.0, -math.inf, 3.0, -math.inf], block=2)
    assert row.blocks[0] == (1.0, 1.0)
    assert row.blocks[1] == pytest.approx((3.0, math.exp(-2) + 1))
    assert row.added == pytest.approx([1.0, 1.0])


@pytest.mark.parametrize(("part", "share", "text"), [
    ("maxima", 1, "3 of 3"), ("block_sums", 1, "2 of 2"),
    ("outputs", 11 / 24, "row 2 prints 0.546"),
    ("sums", 1 / 3, "row 2 prints 3.717, it is 1.443"), ("row_sums", 1 / 3, "it is 0.909"),
])  # fmt: skip
def test_printed_numbers_are_right_within_a_unit_of_the_last_digit(
    part: str, share: float, text: str
) -> None:
    found, told = confirmed(part)
    assert found == pytest.approx(share)
    assert text in told


def test_the_table_has_a_line_for_each_number_that_c_prints() -> None:
    lines = {(line[0], line[1]): line[2:] for line in example_table().lines}
    assert lines["1", "m, d after block 2"][1] == "3.0, 1.863681"
    assert lines["1", "sum of block 1"] == ("1.468", "1.4683", "+0.0003", "yes")
    assert lines["2", "sum"][-1] == lines["3", "outputs"][-1] == "no"
