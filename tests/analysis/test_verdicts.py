"""Each reason on both sides of its threshold."""

from __future__ import annotations

from typing import Any

import pytest

from analysis.verdicts import (
    BUSY_PIPE_PERCENT,
    LAUNCH_SLACK_US,
    LOW_OCCUPANCY,
    TimedPoint,
    compute,
    few_warps,
    launch,
    moves_more,
    served_by_l2,
    spills,
    verdict,
)
from experiments.data.cards import card_of
from tests.analysis.evidence import counters
from tests.analysis.plausible import row

ROOF = 4000.0


def point(
    kernel: str = "fused", cols: int = 16384, ratio: float = 1.5, **changes: Any
) -> TimedPoint:
    """A point far above its launch floor whose time is ``ratio`` times what traffic predicts."""
    seen, floor = changes.pop("counters", None), changes.pop("floor_us", 1.0)
    data = row(kernel, cols).model_dump() | {"roof_gbps": ROOF} | changes
    data["time_us"] = changes.get("time_us", ratio * data["model_bytes"] / ROOF / 1e3)
    return TimedPoint(data, card_of("NVIDIA H200"), floor, seen)


@pytest.mark.parametrize(("ratio", "expected"), [
    (0.901, "traffic"), (1.099, "traffic"), (1.101, "unexplained"), (0.899, "unexplained"),
])  # fmt: skip
def test_traffic_explains_a_time_within_a_tenth(ratio: float, expected: str) -> None:
    assert verdict(point(ratio=ratio)) == expected


def test_a_time_near_the_variants_smallest_is_launch() -> None:
    assert launch(point(time_us=10.0, floor_us=10.0 - LAUNCH_SLACK_US))
    assert not launch(point(time_us=10.1, floor_us=10.0 - LAUNCH_SLACK_US))


def test_spills_show_in_the_row_or_in_the_counters() -> None:
    assert verdict(point(spills=82)) == "spills"
    assert not spills(point(spills=0))
    local = counters("fused", 4096, 16384, 1.0, 1.0, local_load_bytes=4096, local_store_bytes=0)
    assert spills(point(spills=0, counters=local))
    assert not spills(point(counters=counters("fused", 4096, 16384, 1.0, 1.0)))


def test_re_reads_that_dram_never_saw_were_served_by_l2() -> None:
    served = counters("online", 4096, 16384, 1.1, 0.9)
    assert verdict(point("online", ratio=0.7, counters=served)) == "re-reads served by L2"
    moved = counters("online", 4096, 16384, 2.0, 0.9)
    assert verdict(point("online", ratio=0.7, counters=moved)) == "unexplained"


def test_without_counters_re_reads_are_served_where_the_matrix_fits_l2() -> None:
    assert served_by_l2(point("online", cols=1920))  # 2MN = 60 MiB
    assert not served_by_l2(point("online", cols=1921))


def test_without_counters_re_reads_are_served_where_the_rows_in_flight_fit_l2() -> None:
    launched = {"programs": 4096, "warps": 4, "registers": 29, "shared_bytes": 16}
    fits = 60 * 2**20 // (132 * 16 * 4)  # 16 programs of 4 warps an SM
    assert served_by_l2(point("online", cols=fits, **launched))
    assert not served_by_l2(point("online", cols=fits + 1, **launched))


def test_a_variant_without_re_reads_has_none_served() -> None:
    assert not served_by_l2(point("fused", cols=256))


def test_more_reads_than_the_model_has_are_named() -> None:
    more = counters("torch", 4096, 16384, 3.0, 1.0)
    assert verdict(point("torch", counters=more)) == "moves more than its model"
    assert not moves_more(point("torch", counters=counters("torch", 4096, 16384, 1.05, 1.0)))
    assert not moves_more(point("torch"))


def test_less_than_half_of_an_sms_warps_is_low_occupancy() -> None:
    half = {"programs": 132 * 4, "warps": 8, "registers": 64, "shared_bytes": 0}
    assert not few_warps(point(**half))
    assert few_warps(point(**half | {"programs": 132 * 4 - 1}))
    assert few_warps(point(**half | {"shared_bytes": 196640}))  # one program an SM
    assert verdict(point(**half | {"programs": 100})) == "occupancy"
    assert not few_warps(point())  # the library tells no launch


def test_counters_overrule_the_launch_on_occupancy() -> None:
    for percent, expected in ((100 * LOW_OCCUPANCY - 1, True), (100 * LOW_OCCUPANCY, False)):
        seen = counters("fused", 4096, 16384, 1.0, 1.0, occupancy_percent=percent)
        assert few_warps(point(programs=100, warps=8, counters=seen)) is expected


def test_a_busy_pipe_is_compute() -> None:
    for percent, expected in ((BUSY_PIPE_PERCENT + 1, True), (BUSY_PIPE_PERCENT, False)):
        pipes = {"xu": percent, "fma": 10.0}
        seen = counters("fused", 4096, 16384, 1.0, 1.0, pipes_percent=pipes)
        assert compute(point(counters=seen)) is expected
        assert (verdict(point(counters=seen)) == "compute") is expected
    assert not compute(point())
