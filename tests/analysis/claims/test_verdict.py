"""A band decides at its ends, parts make a verdict, and a docstring tells the claim."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pandas as pd
import pytest

from analysis.claims import SOURCES, claims_of, own
from analysis.claims.verdict import (
    Band,
    Part,
    Points,
    about,
    above,
    at_least,
    at_most,
    below,
    between,
    claim,
    equals,
)
from analysis.estimate import Estimate
from analysis.published import sources
from tests.analysis.claims.bench import H200


class ACard:
    """All that a judgement needs of a card."""

    gpu = H200


def points(*numbers: float, slack: float = 0.0, **fields: Any) -> Points:
    """Numbers at places of their own, with an interval of so much to both sides."""
    lines = [
        {"rows": 4, "cols": i, "dtype": "float32", "value": value, "low": value - slack,
         "high": value + slack, "labels": (i,)}
        for i, value in enumerate(numbers)
    ]  # fmt: skip
    return Points(pd.DataFrame(lines), **fields)


@pytest.mark.parametrize(("band", "low", "high", "outcome"), [
    (above(1), 1, 1, "no"), (above(1), 1, 2, "undecided"), (above(1), 1.001, 2, "yes"),
    (below(1), 1, 2, "no"), (below(1), 0.5, 0.9, "yes"), (at_least(1), 1, 1, "yes"),
    (at_least(1), 0.9, 1, "undecided"), (at_most(3), 3, 3, "yes"), (at_most(3), 3.1, 4, "no"),
    (between(3, 4), 2, 5, "undecided"), (between(3, 4), 3, 4, "yes"),
    (between(3, 4), 4.01, 9, "no"), (between(3, 4), 1, 2.9, "no"),
    (about(4, 0.15), 3.4, 4.6, "yes"), (about(4, 0.15), 4.61, 5, "no"),
    (equals(1), 1, 1, "yes"), (equals(1), 0.9, 0.9, "no"),
])  # fmt: skip
def test_an_interval_decides_only_where_all_of_it_lies_on_one_side(
    band: Band, low: float, high: float, outcome: str
) -> None:
    assert band.outcome(Estimate(low, low, high)) == outcome


def test_each_point_has_to_be_as_expected_and_the_furthest_off_is_named() -> None:
    part = points(2, 0.5, 0.9, slack=0.05, gain=1).each("speed", above(1))
    assert (part.outcome, part.direction, part.expected) == ("no", "worse", "every point above 1")
    assert part.estimate is not None
    assert part.estimate.value == 0.5
    assert "over 3 points, 1 as expected; furthest off 0.5 [0.45, 0.55] at 4×1" in part.measured
    assert points(2, 1.02, slack=0.05).each("speed", above(1)).outcome == "undecided"
    assert points(2).each("speed", above(1)).expected == "above 1"


def test_most_points_are_more_than_half() -> None:
    assert points(2, 2, 0.5).most("wins", above(1)).outcome == "yes"
    assert points(2, 0.5).most("wins", above(1)).outcome == "no"
    share = points(2, 2, 1, slack=0.1).most("wins", above(1)).estimate
    assert share == Estimate(2 / 3, 2 / 3, 1.0)


def test_one_number_of_many_points_is_their_geometric_mean_or_the_highest() -> None:
    part = points(1, 4, gain=1).mean("speed", between(3, 4))
    assert part.estimate is not None
    assert part.estimate.value == pytest.approx(2)
    assert part.measured == "2, 1 to 4 over 2 points"
    assert part.labels == (0, 1)
    assert points(1, 5, gain=1).highest("best", at_most(3)).direction == "better"
    assert points(1, 5, gain=-1).highest("best", at_most(3)).direction == "worse"
    assert points(1, 5).highest("best", at_most(3)).direction == ""


YES, NO = Part("a", "", "1", "yes"), Part("b", "", "2", "no", direction="better")
MAYBE, NONE = Part("c", "", "3", "undecided"), Part("d", "", lacks="needs rows")
NEVER = Part("e", "", "4", "no", exact=True)


@pytest.mark.parametrize(("parts", "verdict", "own_verdict"), [
    ([YES], "reproduced", "holds"), ([YES, NONE, MAYBE], "undecided", "undecided"),
    ([YES, NONE], "not measured", "not measured"), ([], "not measured", "not measured"),
    ([YES, NO, MAYBE], "not reproduced on NVIDIA H200", "does not hold"),
    ([NO, NEVER], "contradicted", "does not hold"), ([YES, None], "reproduced", "holds"),
])  # fmt: skip
def test_a_claim_is_as_good_as_its_worst_part(
    parts: list[Part | None], verdict: str, own_verdict: str
) -> None:
    def a1(card: object) -> list[Part | None]:
        """A claim."""
        return parts

    def l1(card: object) -> list[Part | None]:
        """A claim."""
        return parts

    judged = claim("text", "a_fig1")(a1).judge(ACard())
    assert (judged.id, judged.source, judged.verdict) == ("A1", "A", verdict)
    assert judged.word == verdict.partition(" on ")[0]
    ours = claim()(l1).judge(ACard())
    assert (ours.source, ours.verdict) == ("this project", own_verdict)


def test_a_docstring_tells_statement_words_reading_and_why() -> None:
    @claim("A-tab1", "a_tab1")
    def a9(card: object) -> Iterator[Part]:
        """Fused is
        fast.

        “it is fast”

        Fast is taken as faster than torch.

        Here: Triton does better.
        """
        yield NO

    one = a9.judge(ACard())
    assert (one.statement, one.words) == ("Fused is fast", "“it is fast”")
    assert (one.reading, one.why) == ("Fast is taken as faster than torch.", "Triton does better.")
    assert (one.place, one.figure, one.direction) == ("A-tab1", "a_tab1", "better")
    other = ACard()
    other.gpu = "NVIDIA A100-SXM4-80GB"
    assert a9.judge(other).why == "", "the explanation is of an H200"


def test_every_claim_has_what_a_reader_needs() -> None:
    claims = claims_of(SOURCES)
    assert [one.id for one in claims] == [
        f"{letter}{n}" for letter, last in zip("ABCDE", (8, 9, 9, 4, 1), strict=True)
        for n in range(1, last + 1)
    ]  # fmt: skip
    assert [one.id for one in claims_of([own])] == [f"L{n}" for n in range(1, 36)]
    for one in claims:
        assert one.place
        assert one.source in sources()
        assert one.words or one.id == "E1", "of E there are reports alone"
