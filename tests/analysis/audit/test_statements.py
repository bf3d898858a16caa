"""Statements that contradict each other, and the same ones put right."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.published import sources
from analysis.statements.launched import Occupancy, Scope, Setting, Shape, Tuned
from analysis.statements.moved import OnChip, RowSize
from analysis.statements.timed import Timing, TrendStatement
from tests.analysis.audit.planted import stating, verdict

quickly = settings(max_examples=25, deadline=None)


@quickly
@given(time=st.integers(10_000, 30_000), off=st.integers(-50, 50))
def test_a_bandwidth_is_its_bytes_over_its_time_to_the_last_digit(time: int, off: int) -> None:
    exact = Decimal(2 * 8192 * 32000 * 2) / Decimal(time) * 10**4 / 10**6
    printed = (exact + Decimal(off) / 10).quantize(Decimal("0.01"))
    told = Timing(
        at="C4", kernel="torch", rows=8192, cols=32000, dtype="float16",
        time_ms=(Decimal(time) / 10**4).quantize(Decimal("0.0001")), gbps=printed, moves="2MN",
    )  # fmt: skip
    others = sources()["C"].statements.timings[1:]
    found = verdict("C4 torch", stating("C", timings=(told, *others)))
    room = exact * Decimal("0.5") / time + Decimal("0.01")
    if abs(Decimal(off) / 10) > room * 2:
        assert found == "wrong"
    if off == 0:
        assert found == "consistent"


@pytest.mark.parametrize(("kb", "expected"), [(64, "self-contradictory"), (1024, "consistent")])
def test_points_drawn_must_fit_on_chip_by_the_same_text(kb: int, expected: str) -> None:
    told = stating("B", on_chip=(OnChip(at="B5", kernel="fused", low_kb=48, high_kb=kb),))
    where = "" if expected == "consistent" else ", N ≥ 65,536"
    assert verdict(f"A-fig2 fused against B5{where}", told) == expected


@quickly
@given(rows=st.integers(1, 2**20), cols=st.integers(1, 2**20))
def test_offsets_must_reach_the_shape_claimed(rows: int, cols: int) -> None:
    told = stating("A", shapes=(Shape(at="A-fig2", rows=rows, cols=cols),))
    expected = "consistent" if rows * cols <= 2**31 else "wrong"
    assert verdict("A-fig2, 32-bit offsets", told) == expected


def test_two_trends_of_one_curve_must_be_the_same() -> None:
    one = TrendStatement(at="C2", kernel="torch", trend="rising", words="climbs")
    two = TrendStatement(at="C3", kernel="torch", trend="rising", words="goes up")
    assert verdict("C2 against C3, torch", stating("C", trends=(one, two))) == "consistent"


def test_word_holds_where_its_number_is_large_enough() -> None:
    timings = list(sources()["C"].statements.timings)
    timings[1] = timings[1].model_copy(update={"gbps": Decimal("801.00")})
    told = stating("C", timings=tuple(timings))
    assert verdict("C3 against C4", told) == "consistent"  # 11 % below
    assert verdict("C2 against C4 hybrid", told) == "consistent"  # 8 % outside the band
    timings[1] = timings[1].model_copy(update={"gbps": Decimal("700.00")})
    told = stating("C", timings=tuple(timings))
    assert verdict("C2 against C4 hybrid", told) == "self-contradictory"


@pytest.mark.parametrize(
    ("cols", "size", "expected"),
    [
        ("65536", "256 KB", "consistent"),
        ("65536", "262 KB", "consistent"),  # K of 1000
        ("65536", "128 KB", "wrong"),
        ("12K", "48 KB", "consistent"),
        ("12K", "49 KB", "wrong"),
    ],
)
def test_row_size_is_elements_times_their_size(cols: str, size: str, expected: str) -> None:
    told = RowSize(at="B5", dtype="float32", cols=cols, size=size)
    assert verdict(f"B5, a row of {cols}", stating("B", row_sizes=(told,))) == expected


def test_setting_with_one_value_is_consistent() -> None:
    told = stating("C", settings=(Setting(at="C-viz", name="block size", values=(4, 4)),))
    assert verdict("C-viz, block size", told) == "consistent"


def test_tuning_that_changed_the_default_is_consistent() -> None:
    told = stating("C", tuned=(Tuned(at="C7", threads=256),))
    assert verdict("C7, threads a block", told) == "consistent"


def test_scope_as_documented_is_consistent() -> None:
    told = stating("E", scopes=(Scope(at="E", parameter="maxnreg", scope="thread"),))
    assert verdict("E maxnreg", told) == "consistent"


def test_formula_that_divides_by_nothing_that_may_be_zero_is_consistent() -> None:
    formula = "registers_per_sm / (registers·32·warps)"
    told = stating("A", occupancy=(Occupancy(at="A, occupancy", formula=formula),))
    assert verdict("A, occupancy", told) == "consistent"
