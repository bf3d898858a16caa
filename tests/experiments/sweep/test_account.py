import re

from experiments.data.rows import Row
from experiments.sweep.summary import account
from tests.experiments.test_rows import row


def timed(**changes: object) -> Row:
    return row(**{"time_us": 10, "sampling_s": 0.5, "compile_s": 0.2, "wall_s": 0.8} | changes)


def test_the_seconds_of_a_run_add_up_to_its_wall_time() -> None:
    rows = [timed(key=str(i)) for i in range(4)] + [row(key="x", status="unsupported")]
    text = account(rows, 4.0)
    assert text == "5 points in 4.0 s: sampling 2.0 s, compiling 0.8 s, the rest 1.2 s"


def test_seconds_of_cards_side_by_side_are_not_added_up() -> None:
    rows = [timed(key=str(i), card=i % 2, sampling_s=0.5 + i % 2) for i in range(10)]
    first, *cards = account(rows, 12.0).splitlines()
    assert first == "10 points in 12.0 s on 2 cards"
    seconds = [[float(s) for s in re.findall(r"([-\d.]+) s", line)] for line in cards]
    assert [round(sum(one), 1) for one in seconds] == [12.0, 12.0]
    assert [one[0] for one in seconds] == [2.5, 7.5]
