"""Printed numbers as intervals."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.audit.interval import Interval, rounded

NUMBERS = st.floats(0.1, 1000)


@given(a=NUMBERS, b=NUMBERS, c=NUMBERS, d=NUMBERS, s=st.floats(0, 1), t=st.floats(0, 1))
def test_a_quotient_holds_every_quotient_of_its_parts(
    a: float, b: float, c: float, d: float, s: float, t: float
) -> None:
    one, two = Interval(min(a, b), max(a, b)), Interval(min(c, d), max(c, d))
    x, y = (i.low + share * (i.high - i.low) for i, share in ((one, s), (two, t)))
    found = one / two
    assert found.low * (1 - 1e-12) <= x / y <= found.high * (1 + 1e-12)


@pytest.mark.parametrize(
    ("printed", "low", "high"),
    [
        (Decimal("1.2150"), 1.21495, 1.21505),
        (Decimal("4"), 3.5, 4.5),
        (40.0, 39.5, 40.5),  # a file's 40 is read as 40.0
        (901.02, 901.015, 901.025),
    ],
)
def test_a_printed_number_stands_for_what_rounds_to_it(
    printed: Decimal | float, low: float, high: float
) -> None:
    found = rounded(printed)
    assert (found.low, found.high) == pytest.approx((low, high), rel=1e-9)
