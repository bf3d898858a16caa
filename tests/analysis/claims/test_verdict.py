"""A band decides at its ends, parts make a verdict, and a docstring has the claim's texts."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from analysis.claims import SOURCES, claims_of, own
from analysis.claims.verdict import Part, Points, claim, fact, judged
from analysis.estimate import Estimate
from analysis.published import sources
from tests.analysis.claims.bench import H200


def points(*numbers: float, slack: float = 0.0, gain: int = 0) -> Points:
    """Numbers at places of their own, with an interval of so much to both sides."""
    found = enumerate(numbers, 1)
    ends = {(4, n, "float32"): Estimate(x, x - slack, x + slack).of([n]) for n, x in found}
    return Points(ends, gain=gain)


@pytest.mark.parametrize(
    ("band", "yes", "undecided", "no"),
    [
        ({"above": 1}, (1.001, 2), (1, 2), (1, 1)),
        ({"below": 1}, (0.5, 0.9), (0.5, 1), (1, 2)),
        ({"at_least": 1}, (1, 1), (0.9, 1), (0.5, 0.9)),
        ({"at_most": 3}, (3, 3), (3, 3.1), (3.1, 4)),
        ({"between": (3, 4)}, (3, 4), (2, 5), (4.01, 9)),
        ({"about": (4, 0.15)}, (3.4, 4.6), (4, 5), (4.61, 5)),
        ({"equals": 1}, (1, 1), (0.9, 1), (0.9, 0.9)),
    ],
)
def test_an_interval_decides_only_where_all_of_it_lies_on_one_side(
    band: dict[str, Any], yes: Any, undecided: Any, no: Any
) -> None:
    for (low, high), outcome in ((yes, "yes"), (undecided, "undecided"), (no, "no")):
        assert Points({(): Estimate(low, low, high)}).each("a", **band).outcome == outcome


def test_each_point_has_to_be_as_expected_and_the_furthest_off_is_named() -> None:
    part = points(2, 0.5, 0.9, slack=0.05, gain=1).each("speed", above=1)
    assert (part.outcome, part.direction, part.expected) == ("no", "worse", "every point above 1")
    assert part.estimate == Estimate(0.5, 0.45, 0.55).of([2])
    assert "over 3 points, 1 as expected; furthest off 0.5 [0.45, 0.55] at 4×2" in part.measured
    assert points(2, 1.02, slack=0.05).each("speed", above=1).outcome == "undecided"
    assert points(2).each("speed", between=(3, 4)).expected == "3 to 4"
    for gain, direction in ((1, "better"), (-1, "worse"), (0, "")):
        assert points(1, 5).each("best", gain, at_most=3).direction == direction


def test_numbers_are_picked_divided_and_added_place_by_place() -> None:
    many = points(3, 1, 2, 8)
    assert [many.pick(share).numbers[()].value for share in (0, 0.5, 1)] == [1, 2, 8]
    assert many.pick(0.5).each("most", above=2).outcome == "no", "half of them are not most"
    assert many.pick(1).each("best", at_most=9).measured == "8, 1 to 8 over 4 points"
    assert many.spread.each("spread", equals=8).measured == "8, 8 over 1"
    ratio = points(2, 6, slack=1) / points(4, 0)
    assert [*ratio.numbers.values()] == [Estimate(0.5, 0.25, 0.75).of([1, 1])]
    assert [one.value for one in (points(8, 16) / "2MN").numbers.values()] == [1, 1]
    assert [one.value for one in (points(1, 2, 3) + points(4, 5)).numbers.values()] == [5, 7]
    none = Points(needs="needs rows") / points(1)
    assert none.each("a", above=1).lacks == (points(1) / Points(needs="needs rows")).needs


YES, NO = Part("a", "", "1", "yes"), Part("b", "", "2", "no", direction="better")
MAYBE, NONE = Part("c", "", "3", "undecided"), Part("d", "", lacks="needs rows")
HERE = SimpleNamespace(gpu=H200)


@pytest.mark.parametrize(
    ("parts", "verdict", "own_verdict"),
    [
        ([YES], "reproduced", "holds"),
        ([YES, None], "reproduced", "holds"),
        ([YES, NONE, MAYBE], "undecided", "undecided"),
        ([YES, NONE], "not measured", "not measured"),
        ([], "not measured", "not measured"),
        ([YES, NO, MAYBE], "not reproduced on NVIDIA H200", "does not hold"),
        ([NO, fact("e", False, "", "4")], "contradicted", "does not hold"),
    ],
)
def test_a_claim_is_as_good_as_its_worst_part(
    parts: list[Part | None], verdict: str, own_verdict: str
) -> None:
    def a1(card: object) -> list[Part | None]:
        """A claim."""
        return parts

    found = judged(a1, HERE)
    assert (found.id, found.source, found.verdict) == ("A1", "A", verdict)
    assert found.word == verdict.partition(" on ")[0]
    a1.__name__ = "l1"
    ours = judged(a1, HERE)
    assert (ours.source, ours.verdict) == ("this project", own_verdict)


def test_a_docstring_has_statement_words_reading_and_why() -> None:
    @claim("A-tab1", "a_tab1")
    def a9(card: object) -> list[Part]:
        """Fused is
        fast.

        “it is fast”

        Fast is taken as faster than torch.

        Here: Triton does better.
        """
        return [NO]

    one = judged(a9, HERE)
    assert (one.statement, one.words) == ("Fused is fast", "“it is fast”")
    assert (one.reading, one.why) == ("Fast is taken as faster than torch.", "Triton does better.")
    assert (one.place, one.figure, one.direction) == ("A-tab1", "a_tab1", "better")
    elsewhere = judged(a9, SimpleNamespace(gpu="NVIDIA A100"))
    assert elsewhere.why == "", "the explanation is of an H200"


def test_every_claim_of_the_sources_and_ours_is_there() -> None:
    last = {"A": 8, "B": 9, "C": 9, "D": 4, "E": 1}
    assert last.keys() == sources().keys()
    expected = [f"{x.lower()}{n + 1}" for x in last for n in range(last[x])]
    assert [one.__name__ for one in claims_of(SOURCES)] == expected
    ours = [one.__name__ for one in claims_of([own])]
    assert ours == [f"l{n}" for n in range(1, 36)]
