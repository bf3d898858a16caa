"""C-ex: the worked example by a plain reference."""

from __future__ import annotations

from analysis.worked_example import compared


def test_the_table_has_each_number_that_c_prints_and_whether_it_is_right() -> None:
    lines = {(line[0], line[1]): line[2:] for line in (one.cells() for one in compared())}
    assert len(lines) == len(compared())
    assert lines["1", "m, d after block 2"][1] == "3.0, 1.863681"
    assert lines["1", "sum of block 1"] == ("1.468", "1.4683", "+0.0003", "yes")
    assert lines["2", "sum"][:2] == ("3.717", "1.4427")
    assert [len(one.wrong) for one in compared() if one.quantity == "outputs"] == [0, 6, 7]
    wrong = {at for at, cells in lines.items() if cells[-1] == "no"}
    quantities = ("sum", "outputs", "sum of printed outputs")
    assert wrong == {(row, quantity) for row in "23" for quantity in quantities}
