"""One variant's rates: how high, how steady, how they run, and on whose card."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.analysis.claims.bench import judgement
from tests.analysis.plausible import row

LINE = {"rows": 4096, "dtype": "float32"}


def rates(*gbps: float) -> list[Any]:
    """fused at these GB/s at 1024, 2048, 4096 columns."""
    sizes = [1024, 2048, 4096]
    return [
        row("fused", n, time_us=2 * 4096 * n * 4 / rate / 1e3)
        for n, rate in zip(sizes, gbps, strict=False)
    ]


@pytest.mark.parametrize(("most", "verdict"), [
    (1.6, "supported"), (1.5, "inconclusive"), (1.4, "refuted"),
])  # fmt: skip
def test_spread_is_the_highest_over_the_lowest(tmp_path: Path, most: float, verdict: str) -> None:
    told = {"variant": "fused", "column": "effective_gbps", "where": LINE}
    found = judgement(
        tmp_path, rates(2000, 3000, 2500), {"spread": told, "expect": {"at_most": most}}
    )
    assert found.value == pytest.approx(1.5)
    assert found.verdict == verdict


@pytest.mark.parametrize(("least", "verdict"), [(1.2, "supported"), (1.3, "refuted")])
def test_trend_is_one_size_over_another(tmp_path: Path, least: float, verdict: str) -> None:
    told = {"variant": "fused", "column": "effective_gbps", "from": 1024, "to": 4096, "where": LINE}
    check = {"trend": told, "expect": {"at_least": least}}
    found = judgement(tmp_path, rates(2000, 3000, 2500), check)
    assert found.value == pytest.approx(1.25)
    assert found.verdict == verdict
    assert judgement(tmp_path / "b", rates(2000), check).verdict == "not testable here"


@pytest.mark.parametrize(("take", "verdict"), [
    ("each", "refuted"), ("most", "supported"), ("min", "refuted"), ("max", "supported"),
])  # fmt: skip
def test_value_is_taken_as_the_claim_says(tmp_path: Path, take: str, verdict: str) -> None:
    told = {"variant": "fused", "column": "effective_gbps", "take": take, "where": LINE}
    check = {"value": told, "expect": {"at_least": 2200}}
    assert judgement(tmp_path, rates(2000, 3000, 2500), check).verdict == verdict


@pytest.mark.parametrize(("source", "gpu", "verdict", "told"), [
    ("A", "NVIDIA H200", "not testable here", "A names no card"),
    ("E", "NVIDIA H200", "not testable here", "E measured on a NVIDIA GeForce RTX 3090 Ti"),
    ("E", "NVIDIA GeForce RTX 3090 Ti", "supported", "as claimed"),
])  # fmt: skip
def test_absolute_numbers_are_judged_on_the_source_s_card_alone(
    tmp_path: Path, source: str, gpu: str, verdict: str, told: str
) -> None:
    rows = [row("fused", 1024, gpu=gpu)]
    check = {"value": {"variant": "fused", "card": "source"}, "expect": {"above": 0}}
    found = judgement(tmp_path, rows, check, source=source)
    assert found.verdict == verdict
    assert told in found.why
