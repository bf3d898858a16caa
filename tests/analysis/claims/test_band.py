"""The verdict of an interval against a band, in every case."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.claims.band import (
    INCONCLUSIVE,
    REFUTED,
    SUPPORTED,
    UNTESTABLE,
    VERDICTS,
    Band,
    Measure,
    exactly,
    together,
)

NUMBERS = st.integers(-6, 6).map(float)  # few, so that ends meet often
ENDS = st.tuples(NUMBERS, NUMBERS).map(sorted)
HALVES = NUMBERS.map(lambda n: [-math.inf, n]) | NUMBERS.map(lambda n: [n, math.inf])
BANDS = st.builds(lambda ends, open_: Band(*ends, open=open_), ENDS | HALVES, st.booleans())
BANDS |= NUMBERS.map(lambda hole: Band(hole=hole))


def sampled(low: float, high: float) -> list[float]:
    """Numbers of [low, high] at every half: bands of whole numbers change nowhere else."""
    return [low + i / 2 for i in range(int(2 * (high - low)) + 1)]


@given(BANDS, ENDS)
def test_supported_only_if_all_of_the_interval_lies_inside(band: Band, ends: list[float]) -> None:
    inside = [band.holds(value) for value in sampled(*ends)]
    assert (band.verdict(*ends) == SUPPORTED) == all(inside)


@given(BANDS, ENDS)
def test_refuted_only_if_all_of_the_interval_lies_outside(band: Band, ends: list[float]) -> None:
    # an open band narrower than the sampling's half may hold a number between two samples
    if band.open and band.high - band.low < 1:
        return
    inside = [band.holds(value) for value in sampled(*ends)]
    assert (band.verdict(*ends) == REFUTED) == (not any(inside))


@given(BANDS, ENDS)
def test_what_is_neither_is_inconclusive(band: Band, ends: list[float]) -> None:
    inside = [band.holds(value) for value in sampled(*ends)]
    if any(inside) and not all(inside):
        assert band.verdict(*ends) == INCONCLUSIVE


@given(BANDS, ENDS, ENDS)
def test_a_wider_interval_never_decides_more(
    band: Band, ends: list[float], more: list[float]
) -> None:
    wide = min(ends[0], more[0]), max(ends[1], more[1])
    decided = band.verdict(*wide)
    if decided != INCONCLUSIVE:
        assert band.verdict(*ends) == decided


@pytest.mark.parametrize(("band", "low", "high", "verdict"), [
    (Band(low=1, open=True), 1, 1, REFUTED),
    (Band(low=1, open=True), 1, 2, INCONCLUSIVE),
    (Band(low=1, open=True), 1.001, 2, SUPPORTED),
    (Band(low=1), 1, 1, SUPPORTED),
    (Band(low=1), 0.9, 1, INCONCLUSIVE),
    (Band(low=1), 0.9, 0.999, REFUTED),
    (Band(3, 4), 2, 5, INCONCLUSIVE),
    (Band(3, 4), 3, 4, SUPPORTED),
    (Band(3, 4), 4.01, 9, REFUTED),
    (Band(hole=4), 4, 4, REFUTED),
    (Band(hole=4), 3, 5, INCONCLUSIVE),
    (Band(hole=4), 5, 6, SUPPORTED),
])  # fmt: skip
def test_ends_count_as_the_band_says(band: Band, low: float, high: float, verdict: str) -> None:
    assert band.verdict(low, high) == verdict


@given(st.lists(st.sampled_from(VERDICTS), min_size=1))
def test_a_claim_is_as_good_as_its_worst_check(verdicts: list[str]) -> None:
    found = together(verdicts)  # type: ignore[arg-type]
    assert found in verdicts
    assert (found == REFUTED) == (REFUTED in verdicts)
    assert (found == SUPPORTED) == (set(verdicts) == {SUPPORTED})
    if found == UNTESTABLE:
        assert INCONCLUSIVE not in verdicts


POSITIVE = st.floats(0.01, 100)


@given(st.tuples(POSITIVE, POSITIVE, POSITIVE).map(sorted), st.tuples(POSITIVE, POSITIVE, POSITIVE).map(sorted))  # fmt: skip # noqa: E501
def test_a_ratio_s_interval_holds_every_ratio_of_two_numbers_inside(
    top: list[float], bottom: list[float]
) -> None:
    above, below = (Measure(m[1], m[0], m[2]) for m in (top, bottom))
    ratio = above / below
    for one in top:
        for other in bottom:
            assert ratio.low * (1 - 1e-12) <= one / other <= ratio.high * (1 + 1e-12)


def test_an_interval_that_is_none_is_refused() -> None:
    for low, high in ((2.0, 1.0), (math.nan, 1.0), (1.0, math.nan)):
        with pytest.raises(ValueError, match="no interval"):
            Measure(1.0, low, high)
    assert exactly(3).low == exactly(3).high == 3
