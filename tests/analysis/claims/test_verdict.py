"""A band decides at its ends, parts make a verdict, and a docstring has the claim's texts."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest

from analysis.claims import SOURCES, claims_of, own
from analysis.claims.verdict import Band, Part, Points, claim
from analysis.estimate import Estimate
from analysis.published import sources
from tests.analysis.claims.bench import H200


def points(*numbers: float, slack: float = 0.0, **fields: Any) -> Points:
    """Numbers at places of their own, with an interval of so much to both sides."""
    lines = [(4, n, "float32", x, x - slack, x + slack, (n,)) for n, x in enumerate(numbers)]
    columns = ["rows", "cols", "dtype", "value", "low", "high", "labels"]
    return Points(pd.DataFrame(lines, columns=columns), **fields)


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
        assert Band.of(**band).outcome(Estimate(low, low, high)) == outcome


def test_each_point_has_to_be_as_expected_and_the_furthest_off_is_named() -> None:
    part = points(2, 0.5, 0.9, slack=0.05, gain=1).each("speed", above=1)
    assert (part.outcome, part.direction, part.expected) == ("no", "worse", "every point above 1")
    assert part.estimate == Estimate(0.5, 0.45, 0.55)
    assert "over 3 points, 1 as expected; furthest off 0.5 [0.45, 0.55] at 4×1" in part.measured
    assert points(2, 1.02, slack=0.05).each("speed", above=1).outcome == "undecided"
    assert points(2).each("speed", between=(3, 4)).expected == "3 to 4"


def test_many_points_are_judged_by_most_by_their_mean_or_by_the_highest() -> None:
    assert points(2, 2, 0.5).most("wins", above=1).outcome == "yes"
    assert points(2, 0.5).most("wins", above=1).outcome == "no"
    share = points(2, 2, 1, slack=0.1).most("wins", above=1).estimate
    assert share == Estimate(2 / 3, 2 / 3, 1.0)
    part = points(1, 4, gain=1).mean("speed", between=(3, 4))
    assert (part.measured, part.labels) == ("2, 1 to 4 over 2 points", (0, 1))
    for gain, direction in ((1, "better"), (-1, "worse"), (0, "")):
        assert points(1, 5, gain=gain).highest("best", at_most=3).direction == direction


YES, NO = Part("a", "", "1", "yes"), Part("b", "", "2", "no", direction="better")
MAYBE, NONE = Part("c", "", "3", "undecided"), Part("d", "", lacks="needs rows")
NEVER = Part("e", "", "4", "no", exact=True)
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
        ([NO, NEVER], "contradicted", "does not hold"),
    ],
)
def test_a_claim_is_as_good_as_its_worst_part(
    parts: list[Part | None], verdict: str, own_verdict: str
) -> None:
    def a1(card: object) -> list[Part | None]:
        """A claim."""
        return parts

    judged = claim("text", "a_fig1")(a1).judge(HERE)
    assert (judged.id, judged.source, judged.verdict) == ("A1", "A", verdict)
    assert judged.word == verdict.partition(" on ")[0]
    a1.__name__ = "l1"
    ours = claim()(a1).judge(HERE)
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

    one = a9.judge(HERE)
    assert (one.statement, one.words) == ("Fused is fast", "“it is fast”")
    assert (one.reading, one.why) == ("Fast is taken as faster than torch.", "Triton does better.")
    assert (one.place, one.figure, one.direction) == ("A-tab1", "a_tab1", "better")
    other = SimpleNamespace(gpu="NVIDIA A100-SXM4-80GB")
    assert a9.judge(other).why == "", "the explanation is of an H200"


def test_every_claim_has_what_a_reader_needs() -> None:
    claims = claims_of(SOURCES)
    last = {"A": 8, "B": 9, "C": 9, "D": 4, "E": 1}
    assert [one.id for one in claims] == [f"{x}{n + 1}" for x in last for n in range(last[x])]
    assert [one.id for one in claims_of([own])] == [f"L{n}" for n in range(1, 36)]
    for one in claims:
        assert one.place
        assert one.source in sources()
        assert one.words or one.id == "E1", "of E there are reports alone"
