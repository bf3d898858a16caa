"""Ratios carry intervals, and points are taken together as the claim says."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from tests.analysis.claims.bench import WIDTHS, judgement, pairs, ratio


@pytest.mark.parametrize(("least", "verdict"), [
    (1.95, "supported"), (2.0, "inconclusive"), (2.05, "refuted"),
])  # fmt: skip
def test_an_interval_that_straddles_its_threshold_decides_nothing(
    tmp_path: Path, least: float, verdict: str
) -> None:
    found = judgement(tmp_path, pairs(2, 2, 2), ratio({"at_least": least}))
    assert found.verdict == verdict
    assert found.value == pytest.approx(2.0)
    assert found.low == pytest.approx(2 * 0.99 / 1.01)
    assert found.high == pytest.approx(2 * 1.01 / 0.99)


def test_the_mean_is_geometric(tmp_path: Path) -> None:
    found = judgement(tmp_path, pairs(1, 2, 8), ratio({"about": 2.52, "within": "5%"}))
    assert found.value == pytest.approx(math.prod([1, 2, 8]) ** (1 / 3))
    assert found.verdict == "supported"


@pytest.mark.parametrize(("take", "speeds", "verdict"), [
    ("each", (2, 2, 2), "supported"), ("each", (2, 1.01, 2), "inconclusive"),
    ("each", (2, 0.9, 1.01), "refuted"),
    ("most", (2, 2, 0.5), "supported"), ("most", (2, 0.5, 0.5), "refuted"),
    ("most", (2, 1.01, 0.5), "inconclusive"),
    ("min", (2, 2, 0.5), "refuted"), ("max", (0.5, 0.5, 2), "supported"),
])  # fmt: skip
def test_points_are_taken_as_the_claim_says(
    tmp_path: Path, take: str, speeds: tuple[float, ...], verdict: str
) -> None:
    found = judgement(tmp_path, pairs(*speeds), ratio({"above": 1}, take=take))
    assert found.verdict == verdict


def test_peaks_compare_the_best_of_each_wherever_it_lies(tmp_path: Path) -> None:
    check = ratio({"above": 1}, take="peaks", column="effective_gbps")
    found = judgement(tmp_path, pairs(2, 4, 0.5), check)
    assert found.value == pytest.approx(2.0)  # torch's peak at 5 µs, fused's at 10 µs, same width
    assert found.verdict == "supported"


def test_half_of_the_points_is_not_most_of_them(tmp_path: Path) -> None:
    where = {"rows": 4096, "cols": list(WIDTHS[:2]), "dtype": "float32"}
    found = judgement(tmp_path, pairs(2, 0.5), ratio({"above": 1}, take="most", where=where))
    assert (found.verdict, found.value) == ("refuted", 0.5)
