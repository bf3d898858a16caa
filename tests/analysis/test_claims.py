"""Claims: the rows behind a number, and what decides a part and a claim."""

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from analysis.claims import judge_own
from analysis.claims.card import Card, Where
from analysis.claims.verdict import Part, Points, fact, judge_claim
from analysis.estimate import Estimate
from experiments.data.rows import Row
from tests.analysis.drawing import inputs_of
from tests.analysis.plausible import interpreted, row, unsupported

H200 = "NVIDIA H200"


def card(folder: Path, rows: Sequence[Row]) -> Card:
    """The H200 of these rows."""
    return Card(H200, inputs_of(folder, rows))


def values(points: Points) -> list[float]:
    assert points, points.needs
    return [one.value for one in points.numbers.values()]


# Numbers


def test_times_that_are_none_do_not_count(tmp_path: Path) -> None:
    rows = [row("copy", 1024, time_us=12.0)]  # fused at 10 µs is above this roof
    for n in (1024, 2048, 4096):
        rows += [row("fused", n, time_us=10.0), row("torch", n, time_us=20.0)]
    outside = {"time_low_us": 11.0, "attempt": 2}
    rows.append(row("fused", 2048, time_us=10.0).model_copy(update=outside))
    here = card(tmp_path, [*rows, interpreted("fused", 4096, gpu=H200, round=1, key="i")])
    assert values(here.ratio("torch", "fused")) == pytest.approx([2])
    assert judge_own(here.inputs, H200) == [], "there are no rows of our own kernels"
    at = Where(cols=1024)
    assert values(here.times("fused", at)) == [10.0]
    assert not here.rates("fused", at), "a rate above the roof is doubtful"


def test_an_outcome_is_of_every_point_and_a_claimed_failure_needs_a_card(tmp_path: Path) -> None:
    wrong = row("online", 2048, status="incorrect", reason="3 elements differ", time_us=None)
    here = card(tmp_path, [row("online", 256), wrong, unsupported("fused", 65536)])
    part = here.outcome("answers", "online", "ok", gain=1)
    assert (part.outcome, part.expected, part.direction) == ("no", "every point ok", "worse")
    assert part.measured == "1 incorrect, 1 ok: 3 elements differ"
    assert here.outcome("failures", "fused", "out_of_memory").lacks


# Verdicts


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
    for gain, direction in ((1, "better"), (-1, "worse"), (0, "")):
        assert points(1, 5).each("best", gain, at_most=3).direction == direction


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
    def a1(_: object) -> list[Part | None]:
        """A claim.

        “it is fast”
        """
        return parts

    found = judge_claim(a1, HERE)
    assert (found.statement, found.words) == ("A claim", "“it is fast”")
    assert (found.id, found.source, found.verdict) == ("A1", "A", verdict)
    a1.__name__ = "l1"
    ours = judge_claim(a1, HERE)
    assert (ours.source, ours.verdict) == ("this project", own_verdict)


def test_a_number_over_a_missing_one_is_missing_and_says_what_is_needed() -> None:
    ratio = points(2, 6, slack=1) / points(4, 0)
    assert [*ratio.numbers.values()] == [Estimate(0.5, 0.25, 0.75).of([1, 1])]
    needy = Points(needs="needs rows")
    assert {(needy / points(1)).needs, (points(1) / needy).needs} == {"needs rows"}
