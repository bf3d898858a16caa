"""Each measuring function: which rows it pairs, which it leaves out, and what it makes of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from analysis.claims.measure import Where, implied
from analysis.claims.verdict import Points
from analysis.load import Records
from experiments.data.records import HostCost
from experiments.data.rows import Row
from tests.analysis.claims.bench import H200, LINE, WIDTHS, card, pairs, timed
from tests.analysis.loss_rows import loss
from tests.analysis.plausible import interpreted, row, unsupported
from tests.analysis.records import count, counters


def values(points: Points) -> list[float]:
    assert not points.lacks, points.lacks
    return [float(value) for value in points.lines["value"]]


def rates(*gbps: float) -> list[Row]:
    """fused at these GB/s at `WIDTHS`."""
    sizes = zip(WIDTHS, gbps, strict=False)
    return [row("fused", n, time_us=2 * 4096 * n * 4 / rate / 1e3) for n, rate in sizes]


def test_a_ratio_pairs_rows_of_one_visit_and_its_interval_is_of_both(tmp_path: Path) -> None:
    found = card(tmp_path, pairs(2, 3, 4)).ratio("torch", "fused", LINE)
    assert values(found) == pytest.approx([2, 3, 4])
    assert found.lines["low"].iloc[0] == pytest.approx(2 * 0.99 / 1.01)
    assert found.lines["high"].iloc[0] == pytest.approx(2 * 1.01 / 0.99)
    assert len(found.labels) == 6
    assert found.gain == 1


@pytest.mark.parametrize("change", [{"sweep": "other"}, {"round": 1}, {"timer": "graph"}])
def test_rows_of_another_visit_protocol_or_place_never_pair(
    tmp_path: Path, change: dict[str, Any]
) -> None:
    rows = [timed("fused", n, 10.0) for n in WIDTHS]
    rows += [timed("torch", n, 20.0, key=f"t{n}", **change) for n in WIDTHS]
    lacks = card(tmp_path, rows).ratio("torch", "fused", LINE).lacks
    assert lacks.startswith("needs timed rows of torch and fused")


def test_of_several_visits_the_middle_counts_with_an_interval_around_all(tmp_path: Path) -> None:
    rows = [one for i, speed in enumerate((2, 4, 3)) for one in pairs(speed, round=i)]
    found = card(tmp_path, rows).ratio("torch", "fused", LINE)
    assert values(found) == pytest.approx([3])
    assert found.lines["low"].iloc[0] == pytest.approx(2 * 0.99 / 1.01)
    assert found.lines["high"].iloc[0] == pytest.approx(4 * 1.01 / 0.99)


def test_times_that_are_none_do_not_count(tmp_path: Path) -> None:
    copy = timed("copy", 1024, 30.0)  # fused at 10 µs is above this roof
    outside = timed("fused", 2048, 10.0).model_copy(update={"time_low_us": 11.0})
    rows = [copy, *pairs(2, 2, 2), outside.model_copy(update={"attempt": 2})]
    rows += [interpreted("fused", 4096, gpu=H200, round=1, key="i")]
    assert values(card(tmp_path, rows).ratio("torch", "fused", LINE)) == pytest.approx([2])


def test_two_calls_add_up_and_a_tunable_tells_variants_apart(tmp_path: Path) -> None:
    rows = [*pairs(1, 1, 1), *(timed("naive", n, 20.0) for n in WIDTHS[:2])]
    rows += [timed("online", 1024, 10.0)]
    rows += [timed("online", 1024, 25.0, params={"accumulate": "float64"}, key="double")]
    here = card(tmp_path, rows)
    both = here.ratio("torch + naive", "fused", LINE)
    assert values(both) == pytest.approx([3, 3])  # no sum, no ratio
    assert values(here.ratio("online,accumulate=float64", "online")) == pytest.approx([2.5])


def test_peaks_and_spreads_are_of_places_that_both_kernels_ran(tmp_path: Path) -> None:
    here = card(tmp_path, [*pairs(2, 4, 0.5), timed("torch", 8192, 1.0)])
    # torch's best is at 5 µs, fused's at 10 µs, both at 4096 columns
    assert values(here.peaks("torch", "fused", LINE)) == pytest.approx([2])
    # fused grows fourfold with the width, torch from 20 µs at 1024 to 5 µs at 4096 sixteenfold
    assert values(here.spreads("torch", "fused", LINE)) == pytest.approx([4])


def test_one_kernel_s_rates_give_a_spread_a_trend_and_a_column(tmp_path: Path) -> None:
    here = card(tmp_path, rates(2000, 3000, 2500))
    assert values(here.spread("fused", LINE)) == pytest.approx([1.5])
    assert values(here.trend("fused", "effective_gbps", 1024, 4096, LINE)) == pytest.approx([1.25])
    assert values(here.column("fused", "effective_gbps", LINE)) == pytest.approx([2000, 3000, 2500])
    assert here.trend("fused", "effective_gbps", 1024, 8192, LINE).lacks
    assert "A100" in here.column("fused", "time_us", LINE, gpu="NVIDIA A100").lacks
    roof = card(tmp_path / "roof", [timed("fused", 1024, 8.0), timed("copy", 1024, 9.0)])
    assert values(roof.column("fused", "time_us", LINE)) == [8.0]
    assert roof.column("fused", "effective_gbps", LINE).lacks, "a rate above the roof is doubtful"


def point(own: float, cols: int = 16384, timer: str = "events", **times: float) -> list[Row]:
    """auto and others at one shape, three rounds."""
    return [
        row(kernel, cols, time_us=time, round=i, timer=timer, key=f"{kernel}-{cols}-{timer}")
        for kernel, time in ({"auto": own} | times).items()
        for i in range(3)
    ]


LOSS = loss({"ce_auto": 0.24, "ce_quack": 0.30, "read": 0.238}) + point(100.0, quack=50.0)
TWO_SIZES = point(100.0, quack=120.0) + point(10.0, cols=256, quack=20.0)
TWO_TIMERS = point(100.0, quack=120.0) + point(100.0, timer="graph", quack=90.0)
HELD_OUT = point(100.0, quack=120.0) + point(100.0, cols=16385, quack=90.0)


@pytest.mark.parametrize(("rows", "over", "clock", "which", "expected"), [
    (point(100.0, torch=200.0, quack=120.0), "peers", "events", {}, [1.2]),
    (point(100.0, torch=200.0, quack=120.0), "torch", "events", {}, [2.0]),
    (point(100.0, torch=200.0, copy=95.0), "roof", "events", {}, [0.95]),
    (TWO_SIZES, "peers", "events", {"large": True}, [1.2]),
    (TWO_SIZES, "peers", "events", {"short": True}, [2.0]),
    (TWO_SIZES, "peers", "events", {"short": True, "as_gap": True}, [10.0]),
    (TWO_SIZES, "peers", "events", {"where": Where(cols=(1, 1024))}, [2.0]),
    (TWO_TIMERS, "peers", "in a graph", {}, [0.9]),
    (HELD_OUT, "peers", "events", {}, [1.2]),
    (HELD_OUT, "peers", "events", {"held_out": True}, [0.9]),
    (LOSS, "quack", "events", {"operation": "cross_entropy", "mean": True}, [1.25]),
])  # fmt: skip
def test_our_kernel_is_compared_with_its_rivals_at_the_points_named(
    tmp_path: Path, rows: list[Row], over: str, clock: str, which: dict[str, Any],
    expected: list[float],
) -> None:  # fmt: skip
    assert values(card(tmp_path, rows).rival(over, clock, **which)) == pytest.approx(expected)


def test_a_mean_over_rivals_is_geometric_and_says_over_what(tmp_path: Path) -> None:
    rows = point(100.0, quack=120.0) + point(100.0, cols=8192, quack=90.0)
    found = card(tmp_path, rows).rival("peers", "events", mean=True)
    assert values(found) == pytest.approx([(1.2 * 0.9) ** 0.5])
    assert found.note == "2 points, interval over rounds"
    assert len(found.labels) == 12
    assert "quack" in card(tmp_path / "b", point(100.0, torch=120.0)).rival("quack", "events").lacks


def test_counts_are_exact_and_what_dram_saw_is_of_this_card_alone(tmp_path: Path) -> None:
    seen = [counters("naive", 4096, 16384, 5, 3), counters("fused", 4096, 16384, 1, 1)]
    seen += [counters("fused", 4096, 16384, 9, 9, gpu="A100")]
    counts = (count("online"), count("fused"))
    here = card(tmp_path, pairs(1), Records(counts=counts, counters=tuple(seen)))
    assert values(here.counts("online", "2MN", kind="reads")) == [1.0]
    assert values(here.counts("online", "fused")) == [1.5]
    assert here.counts("online", "3MN").exact
    assert values(here.at_dram("fused", "MN", kind="reads")) == pytest.approx([1])
    assert values(here.at_dram("naive", "fused")) == pytest.approx([4])
    assert not here.at_dram("naive", "fused").exact
    assert here.at_dram("online", "3MN").lacks == "needs counters of online (make counters)"


def test_the_host_s_cost_is_over_pytorch_s_or_over_another_layer(tmp_path: Path) -> None:
    def layer(name: str, us: float, **ends: float) -> dict[str, Any]:
        bounds = {"host_low_us": 0.9 * us, "host_high_us": 1.1 * us}
        return {"layer": name, "base": "torch", "host_us": us, "ratio": us / 5} | bounds | ends

    layers = [layer("torch", 5.0), layer("plain", 6.0, ratio_low=1.19, ratio_high=1.21),
              layer("peer", 12.0)]  # fmt: skip
    record = {"gpu": H200, "shape": [128, 256], "layers": layers}
    here = card(tmp_path, pairs(1), Records(hosts=(HostCost.model_validate(record),)))
    for found, ends in (
        (here.host("plain"), (1.2, 1.19, 1.21)),
        (here.host("plain", "peer"), (0.5, 5.4 / 13.2, 6.6 / 10.8)),
    ):
        assert found.lines[["value", "low", "high"]].iloc[0].tolist() == pytest.approx(ends)
    assert "hostcost" in here.host("absent").lacks


def test_an_outcome_is_the_share_of_points_and_a_claimed_failure_needs_a_card(
    tmp_path: Path,
) -> None:
    wrong = row("online", 2048, status="incorrect", reason="3 elements differ", time_us=None)
    here = card(tmp_path, [row("online", 256), wrong, unsupported("fused", 65536)])
    found = here.outcome("online", ["ok"])
    assert values(found) == [0.5]
    assert found.note == "1 incorrect, 1 ok: 3 elements differ"
    assert values(here.outcome("fused", ["ok"])) == [0.0]
    assert here.outcome("fused", ["out_of_memory"]).lacks


def test_two_answers_are_as_far_apart_as_their_errors_allow(tmp_path: Path) -> None:
    errors = {"online": 2 * 2.0**-23, "three_pass": 2.0**-23}
    rows = [row(kernel, 256, relative_error=error) for kernel, error in errors.items()]
    line = card(tmp_path, rows).distance("online", "three_pass").lines.iloc[0]
    assert (line["value"], line["low"], line["high"]) == pytest.approx((3, 1, 3))


def test_printed_times_imply_a_bandwidth() -> None:
    drawn = implied("A", "fused", "2MN")
    assert values(drawn)[0] == pytest.approx(2 * 4096 * 256 * 4 / 5e-6 / 1e9)
    assert values(implied("C", "torch", "2MN")) == pytest.approx([900.993], abs=1e-3)
