"""Ratios, peaks and times that contradict each other, and the same ones put right."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.published import Level, Ratio, Series, Source, sources
from analysis.statements.moved import TrafficLimit
from tests.analysis.audit.planted import source_with, stating, verdict

quickly = settings(max_examples=25, deadline=None)


def ratio(claim: str, over: str, low: float, high: float) -> Ratio:
    return Ratio(claim=claim, kernel="fused", over=over, low=low, high=high, said="")


def drawn(**kernels: tuple[float, ...]) -> dict[str, Source]:
    one = Series(
        figure="A-fig2", quantity="time_us", rows=4096, over="cols",
        sizes=(1024, 8192, 16384)[: len(kernels["fused"])], kernels=kernels,
    )  # fmt: skip
    return source_with("A", series={"a_fig2": one})


def peak(kernel: str, gbps: float) -> Level:
    return Level(
        claim="A6", kernel=kernel, quantity="effective_gbps", of="peak", low=gbps, high=gbps
    )


def test_peaks_contradict_times_only_where_their_order_is_turned_round() -> None:
    assert verdict("A6 against A-fig2", drawn(fused=(50, 90), torch=(40, 80))) == "consistent"
    assert verdict("A6 against A-fig2", drawn(fused=(50, 90), torch=(60, 80))) == "consistent"
    turned = drawn(fused=(50, 90), torch=(60, 95))
    assert verdict("A6 against A-fig2", turned) == "self-contradictory"


def test_peak_is_the_most_that_its_source_draws() -> None:
    series = Series(
        figure="A-fig2", quantity="time_us", rows=4096, over="cols", sizes=(8192,),
        kernels={"fused": (268,)},
    )  # fmt: skip
    told = source_with("A", series={"a_fig2": series}, levels=(peak("fused", 1000),))
    assert verdict("A-fig2 fused against A6", told) == "consistent"  # 1001.6, 268.5 µs: 999.8
    told = source_with("A", series={"a_fig2": series}, levels=(peak("fused", 995),))
    assert verdict("A-fig2 fused against A6, N = 8,192", told) == "self-contradictory"


def test_ratio_as_drawn_is_consistent_and_only_at_its_widths() -> None:
    told = drawn(fused=(10, 40), naive=(40, 80))
    assert verdict("A4 against A-fig2", told) == "self-contradictory"
    narrow = sources()["A"].ratios[0].model_copy(update={"widths": (256, 4096)})
    told["A"] = told["A"].model_copy(update={"ratios": (narrow,)})
    assert verdict("A4 against A-fig2", told) == "consistent"


def test_drawn_times_that_approach_the_ratio_of_traffic_are_consistent() -> None:
    assert verdict("A3 against A-fig2", drawn(fused=(10, 40), naive=(20, 150))) == "consistent"
    assert verdict("A3 against A-fig2", drawn(fused=(10, 20), naive=(20, 40))) == "consistent"
    beyond = drawn(fused=(10, 40), naive=(40, 320))
    assert verdict("A3 against A-fig2", beyond) == "self-contradictory"
    away = drawn(fused=(10, 40), naive=(40, 80))
    assert verdict("A3 against A-fig2", away) == "self-contradictory"


@pytest.mark.parametrize(("value", "expected"), [(4, "consistent"), (5, "wrong")])
def test_ratio_of_traffic_is_that_of_the_models(value: int, expected: str) -> None:
    told = TrafficLimit(at="A3", larger="naive", smaller="fused", value=Decimal(value))
    assert verdict("A3, against the models", stating("A", traffic_limits=(told,))) == expected


@quickly
@given(over_torch=st.floats(1.01, 8), least=st.floats(1, 4), more=st.floats(1, 2))
def test_two_ratios_contradict_where_they_make_the_lighter_kernel_no_faster(
    over_torch: float, least: float, more: float
) -> None:
    most = least * more
    told = source_with(
        "D",
        ratios=(ratio("D1", "torch", over_torch, over_torch), ratio("D2", "naive", least, most)),
    )
    expected = "self-contradictory" if most / over_torch <= 1 else "consistent"
    assert verdict("D1 against D2", told) == expected


def test_win_at_most_widths_needs_most_of_them_and_leaves_exceptions() -> None:
    assert verdict("A5 against A-fig2", drawn(fused=(9, 9), torch=(6, 12))) == "self-contradictory"
    most = drawn(fused=(9, 9, 9), torch=(6, 12, 12))
    assert verdict("A5 against A-fig2", most) == "consistent"
    assert verdict("A5 against A-fig2", drawn(fused=(9, 9), torch=(10, 10))) == "consistent"
    told = source_with("D", ratios=(ratio("D1", "torch", 0.9, 4),))
    assert verdict("D1 against A5", told) == "consistent"
    assert verdict("D1 against A6", told) == "consistent"  # 1448 / 1515 is in it


def test_floor_is_below_the_peak_of_the_same_code() -> None:
    floor = sources()["D"].levels[0].model_copy(update={"low": 1450.0, "high": 1450.0})
    told = source_with("D", levels=(floor,))
    assert verdict("D3 against A6", told) == "self-contradictory"
