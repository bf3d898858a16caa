"""How points ended, how far answers are apart, and what is printed or not recorded."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.analysis.claims.bench import judgement
from tests.analysis.plausible import interpreted, row, unsupported


@pytest.mark.parametrize(("among", "reason", "verdict"), [
    (["unsupported"], None, "supported"), (["unsupported"], "fit on chip", "supported"),
    (["unsupported"], "shared memory", "refuted"), (["ok"], None, "refuted"),
    (["out_of_memory", "unsupported"], None, "supported"),
])  # fmt: skip
def test_outcome_is_a_status_and_its_reason(
    tmp_path: Path, among: list[str], reason: str | None, verdict: str
) -> None:
    told = {"variant": "fused", "among": among, "where": {"cols": 65536}}
    check = {"outcome": told | ({"reason": reason} if reason else {})}
    found = judgement(tmp_path, [unsupported("fused", 65536), row("fused", 256)], check)
    assert found.verdict == verdict


def test_the_interpreter_proves_answers_and_no_limit_of_a_card(tmp_path: Path) -> None:
    told = {"variant": "fused", "among": ["ok"]}
    rows = [interpreted("fused", 256)]
    assert judgement(tmp_path / "a", rows, {"outcome": told}).verdict == "supported"
    limit = {"outcome": told | {"interpreted": False}}
    assert judgement(tmp_path / "b", rows, limit).verdict == "not testable here"


@pytest.mark.parametrize(("most", "verdict"), [
    (3.1, "supported"), (2.0, "inconclusive"), (0.9, "refuted"),
])  # fmt: skip
def test_two_answers_are_as_far_apart_as_their_errors_allow(
    tmp_path: Path, most: float, verdict: str
) -> None:
    epsilon = 2.0**-23
    rows = [row("online", 256, relative_error=2 * epsilon),
            row("three_pass", 256, relative_error=epsilon)]  # fmt: skip
    told = {"agreement": {"variants": ["online", "three_pass"]}, "expect": {"at_most": most}}
    found = judgement(tmp_path, rows, told)
    assert found.verdict == verdict
    assert (found.low, found.high) == pytest.approx((1, 3))


def test_a_part_that_nothing_records_says_what_it_needs(tmp_path: Path) -> None:
    told = {"unrecorded": {"what": "no row tells", "needs": "ncu"}}
    found = judgement(tmp_path, [row("torch", 256)], told)
    assert found.verdict == "not testable here"
    assert "no row tells" in found.why


@pytest.mark.parametrize(
    ("kernel", "verdict"), [("fused", "refuted"), ("hybrid", "not testable here")]
)
def test_published_times_are_held_against_physics(
    tmp_path: Path, kernel: str, verdict: str
) -> None:
    told = {"kernel": kernel, "traffic": "2MN", "series": "a_fig2"}
    check = {"implied": told, "expect": {"at_most": "fastest card"}}
    found = judgement(tmp_path, [row("torch", 256)], check)
    assert found.verdict == verdict
    if kernel == "fused":
        assert found.value == pytest.approx(226_051, rel=1e-5)
        assert "1,678 to 226,051" in found.measured
