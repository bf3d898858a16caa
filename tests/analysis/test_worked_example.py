"""C-ex: the worked example by a plain reference."""

from __future__ import annotations

import pytest

from analysis.worked_example import compared, confirmed


@pytest.mark.parametrize(("quantity", "right", "text"), [
    ("maximum", True, "3 of 3"), ("sum of block", True, "2 of 2"),
    ("outputs", False, "11 of 24 printed numbers; row 2 prints 0.546"),
    ("sum", False, "1 of 3 printed numbers; row 2 prints 3.717, it is 1.443"),
    ("sum of printed outputs", False, "it is 0.909"), ("sum of outputs", True, "3 of 3"),
])  # fmt: skip
def test_printed_numbers_are_right_within_a_unit_of_the_last_digit(
    quantity: str, right: bool, text: str
) -> None:
    found, said = confirmed(quantity)
    assert found == right
    assert text in said


def test_the_table_has_a_line_for_each_number_that_c_prints() -> None:
    lines = {(line[0], line[1]): line[2:] for line in (one.cells() for one in compared())}
    assert len(lines) == len(compared())
    assert lines["1", "m, d after block 2"][1] == "3.0, 1.863681"
    assert lines["1", "sum of block 1"] == ("1.468", "1.4683", "+0.0003", "yes")
