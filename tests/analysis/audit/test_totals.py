"""Sums, counts and traffic models."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.audit.formulas import terms, text
from analysis.formula import elements, equal, expression
from analysis.published import sources
from analysis.statements.moved import Step, Steps, TrafficStatement, Trips
from tests.analysis.audit.planted import stating, verdict

quickly = settings(max_examples=25, deadline=None)

POSITIVE = st.integers(1, 20)


@quickly
@given(a=POSITIVE, b=POSITIVE, c=POSITIVE, d=POSITIVE, extra=st.integers(0, 3))
def test_a_total_is_the_sum_of_its_parts(a: int, b: int, c: int, d: int, extra: int) -> None:
    told = TrafficStatement(
        at="A-tab1",
        kernel="naive",
        reads=f"{a}MN + {b}M",
        writes=f"{c}MN + {d}M",
        total=f"{a + c + extra}MN + {b + d}M",
    )
    found = verdict("A-tab1 naive, reads + writes", stating("A", traffic=(told,)))
    assert found == ("wrong" if extra else "consistent")


@quickly
@given(a=POSITIVE, b=POSITIVE, rows=st.integers(1, 10**6), cols=st.integers(1, 10**6))
def test_formulas_read_as_they_print(a: int, b: int, rows: int, cols: int) -> None:
    printed = f"{a}MN + {b}M"
    assert elements(printed, rows, cols) == a * rows * cols + b * rows
    assert terms(printed) == a + b
    assert equal(text(expression(printed)), printed)


@pytest.mark.parametrize(
    ("reads", "writes", "total", "expected"),
    [
        (7, 5, 12, "consistent"),  # every pass that 5MN + 2M and 3MN + 2M count
        (5, 3, 8, "consistent"),  # those over the matrix
        (5, 5, 10, "wrong"),
        (7, 3, 10, "wrong"),
        (7, 5, 11, "wrong"),
        (None, None, 12, "consistent"),
        (None, None, 10, "wrong"),
    ],
)
def test_trips_are_counted_one_way(
    reads: int | None, writes: int | None, total: int, expected: str
) -> None:
    told = Trips(at="A-fig1", kernel="naive", reads=reads, writes=writes, total=total)
    assert verdict("A-fig1 naive", stating("A", trips=(told,))) == expected


def test_calls_that_count_their_indices_are_consistent() -> None:
    calls = sources()["A"].statements.steps[0]
    counted = Step(call="max(dim=1)", reads="MN", writes="M", index_bytes=8)
    told = stating(
        "A", steps=(Steps(at=calls.at, kernel="naive", steps=(counted, *calls.steps[1:])),)
    )
    assert verdict("A-tab1 naive, writes of max(dim=1)", told) == "consistent"
    dropped = stating("A", steps=(Steps(at=calls.at, kernel="naive", steps=calls.steps[1:]),))
    assert verdict("A-tab1 naive, reads of its 4 calls", dropped) == "wrong"


def test_traffic_is_held_against_the_recorded_declaration_in_its_unit() -> None:
    def said(total: str, unit: str) -> str:
        told = TrafficStatement(at="D", kernel="fused", total=total, unit=unit)  # type: ignore[arg-type]
        return verdict("D fused, against its model", stating("D", traffic=(told,)))

    assert said("2MN", "elements") == "consistent"
    assert said("MN", "elements") == "wrong"
    assert said("2MN", "bytes") == "wrong"


@pytest.mark.parametrize(("order", "any_width"), [("O(1)", True), ("O(N)", False), ("O(B)", False)])
def test_on_chip_share_is_of_its_variants_order(order: str, any_width: bool) -> None:
    told = TrafficStatement(
        at="B-tab1", kernel="online", reads="2MN", on_chip=order, any_width=any_width
    )
    assert verdict("B-tab1 online, on chip", stating("B", traffic=(told,))) == "wrong"


def test_same_traffic_holds_where_the_formulas_are_the_same() -> None:
    def said(reads: str) -> str:
        told = TrafficStatement(at="B2", kernel="online", reads=reads, writes="MN", same_as="fused")
        return verdict("B2 against A-tab1 fused", stating("B", traffic=(told,)))

    assert said("MN") == "consistent"
    assert said("2MN") == "self-contradictory"  # the writes are the same
