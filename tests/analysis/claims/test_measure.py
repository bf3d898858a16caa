"""Each measuring function: which rows it pairs, which it leaves out, and what it makes of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from analysis.claims.measure import Where, growth, implied
from analysis.claims.own import H200, _time
from analysis.claims.verdict import Points
from analysis.load import Records
from experiments.data.records import HostCost
from experiments.data.rows import Row
from tests.analysis.claims.bench import LINE, WIDTHS, card, pairs
from tests.analysis.loss_rows import loss
from tests.analysis.plausible import interpreted, row, unsupported
from tests.analysis.records import count, counters


def values(points: Points) -> list[float]:
    assert points, points.needs
    return [one.value for one in points.numbers.values()]


def test_a_ratio_is_of_one_visit_and_of_several_their_mean(tmp_path: Path) -> None:
    found = card(tmp_path / "one", pairs(2, 3, 4)).ratio("torch", "fused", LINE)
    assert values(found) == pytest.approx([2, 3, 4])
    first, *_ = found.numbers.values()
    assert [first.low, first.high] == pytest.approx([2 * 0.99 / 1.01, 2 * 1.01 / 0.99])
    assert (len(first.labels), found.gain) == (2, 1)
    rows = [one for i in range(2) for one in pairs(2 * 4**i, round=i)]
    here = card(tmp_path, rows)
    for mean in (False, True):
        assert values(here.ratio("torch", "fused", LINE, mean=mean)) == pytest.approx([4])
    assert "interval over rounds" in here.ratio("torch", "fused", LINE, mean=True).note


@pytest.mark.parametrize("change", [{"sweep": "other"}, {"round": 1}, {"timer": "graph"}])
def test_rows_of_another_visit_or_protocol_never_pair(
    tmp_path: Path, change: dict[str, Any]
) -> None:
    rows = [row("fused", n, time_us=10.0) for n in WIDTHS]
    rows += [row("torch", n, time_us=20.0, key=f"t{n}", **change) for n in WIDTHS]
    found = card(tmp_path, rows).ratio("torch", "fused", LINE, mean=True)
    assert not found
    assert found.needs.startswith("needs timed rows of torch and fused")


def test_times_that_are_none_do_not_count(tmp_path: Path) -> None:
    copy = row("copy", 1024, time_us=12.0)  # fused at 10 µs is above this roof
    outside = row("fused", 2048, time_us=10.0).model_copy(update={"time_low_us": 11.0})
    rows = [copy, *pairs(2, 2, 2), outside.model_copy(update={"attempt": 2})]
    rows += [interpreted("fused", 4096, gpu=H200, round=1, key="i")]
    here = card(tmp_path, rows)
    assert values(here.ratio("torch", "fused", LINE)) == pytest.approx([2])
    at = replace(LINE, cols=1024)
    assert values(here.times("fused", at)) == [10.0]
    assert not here.rates("fused", at), "a rate above the roof is doubtful"


def test_two_calls_add_up_and_a_tunable_keeps_variants_apart(tmp_path: Path) -> None:
    rows = [*pairs(1, 1, 1), *(row("naive", n, time_us=20.0) for n in WIDTHS[:2])]
    rows += [row("online", 1024, time_us=10.0)]
    rows += [row("online", 1024, time_us=25.0, params={"accumulate": "float64"}, key="double")]
    here = card(tmp_path, rows)
    both = here.ratio("torch + naive", "fused", LINE)
    assert values(both) == pytest.approx([3, 3])  # no sum, no ratio
    assert values(here.ratio("online,accumulate=float64", "online")) == pytest.approx([2.5])


def test_bandwidths_spreads_and_growth_are_of_one_kernel(tmp_path: Path) -> None:
    here = card(tmp_path, [*pairs(2, 4, 0.5), row("torch", 8192, time_us=1.0)])
    size = 2 * 4096 * 1024 * 4 / 1e3
    assert values(here.rates("fused", replace(LINE, cols=1024))) == pytest.approx([size / 10])
    assert values(here.rates("fused", LINE).spread) == pytest.approx([4])
    assert values(growth(here.times, "torch", 1024, 4096, LINE)) == pytest.approx([0.25])
    assert not growth(here.times, "torch", 1024, 512, LINE)
    assert _time(replace(here, gpu="NVIDIA A100"), "fused", 4096, 1024, 9).lacks


def point(own: float, cols: int = 16384, timer: str = "events", **times: float) -> list[Row]:
    """auto and others at one shape, three rounds."""
    return [
        row(kernel, cols, time_us=time, round=i, timer=timer, key=f"{kernel}-{cols}-{timer}")
        for kernel, time in ({"auto": own} | times).items()
        for i in range(3)
    ]


TWO = point(100.0, quack=120.0, copy=95.0) + point(10.0, cols=256, quack=20.0, copy=9.0)
MORE = point(100.0, timer="graph", quack=90.0) + point(100.0, cols=16385, quack=80.0)
LOSS = loss({"ce_auto": 0.24, "ce_quack": 0.30, "read": 0.238})


@pytest.mark.parametrize(
    ("over", "clock", "which", "expected"),
    [
        ("peers", "events", {"where": Where(large=True)}, 1.2),
        ("quack", "events", {"where": Where(short=True), "as_gap": True}, 10.0),
        ("roof", "events", {"where": Where(large=True)}, 0.95),
        ("roof", "events", {"where": Where(short=True), "as_gap": True}, -1.0),
        ("peers", "events", {"mean": True}, 2.4**0.5),
        ("peers", "in a graph", {}, 0.9),
        ("peers", "events", {"where": Where(tuned=False)}, 0.8),
        ("quack", "events", {"operation": "cross_entropy", "mean": True}, 1.25),
    ],
)
def test_our_kernel_is_compared_with_its_rivals_at_the_points_named(
    tmp_path: Path, over: str, clock: str, which: Any, expected: float
) -> None:
    here = card(tmp_path, TWO + MORE + LOSS)
    found = here.rival(over, clock, **which)
    assert values(found) == pytest.approx([expected])
    for one in found.numbers.values():
        assert len(one.labels) % 6 == 0  # three rounds of two kernels each
    assert "liger" in here.rival("liger", clock).needs


def test_counts_are_exact_and_what_dram_saw_is_of_this_card_alone(tmp_path: Path) -> None:
    seen = [counters("naive", 4096, 16384, 5, 3), counters("fused", 4096, 16384, 1, 1)]
    seen += [counters("fused", 4096, 16384, 9, 9, gpu="A100")]
    counts = (count("online"), count("fused"))
    here = card(tmp_path, pairs(1), Records(counts=counts, counters=tuple(seen)))
    assert values(here.counted("online", kind="reads") / "2MN") == [1.0]
    assert values(here.counted("online") / here.counted("fused")) == [1.5]
    assert here.counted("online").exact
    assert values(here.at_dram("fused", kind="reads") / "MN") == pytest.approx([1])
    moved = here.at_dram("naive") / here.at_dram("fused")
    assert (values(moved), moved.exact) == (pytest.approx([4]), False)
    needs = (here.at_dram("online") / "3MN").needs
    assert needs == "needs counters of online (make counters)"


def test_the_host_s_cost_is_over_pytorch_s_or_over_another_layer(tmp_path: Path) -> None:
    def layer(name: str, us: float, **ends: float) -> dict[str, Any]:
        bounds = {"host_low_us": 0.9 * us, "host_high_us": 1.1 * us}
        return {"layer": name, "base": "torch", "host_us": us, "ratio": us / 5} | bounds | ends

    layers = [layer("torch", 5.0), layer("plain", 6.0, ratio_low=1.19, ratio_high=1.21)]
    layers += [layer("peer", 12.0)]
    record = {"gpu": H200, "shape": [128, 256], "layers": layers}
    here = card(tmp_path, pairs(1), Records(hosts=(HostCost.model_validate(record),)))
    plain, over = (here.host("plain", other).numbers[()] for other in ("", "peer"))
    assert [plain.value, plain.low, plain.high] == [1.2, 1.19, 1.21]
    assert [over.value, over.low, over.high] == pytest.approx([0.5, 5.4 / 13.2, 6.6 / 10.8])
    assert "hostcost" in here.host("absent").needs


def test_an_outcome_is_of_every_point_and_a_claimed_failure_needs_a_card(tmp_path: Path) -> None:
    wrong = row("online", 2048, status="incorrect", reason="3 elements differ", time_us=None)
    here = card(tmp_path, [row("online", 256), wrong, unsupported("fused", 65536)])
    part = here.outcome("answers", "online", "ok", gain=1)
    assert (part.outcome, part.expected, part.direction) == ("no", "every point ok", "worse")
    assert part.measured == "1 incorrect, 1 ok: 3 elements differ"
    assert here.outcome("answers", "fused", "ok").outcome == "no"
    assert here.outcome("failures", "fused", "out_of_memory").lacks


def test_errors_are_in_epsilons_and_printed_times_imply_rates(tmp_path: Path) -> None:
    errors = [("online", 256, 2), ("three_pass", 256, 1), ("online", 512, 9)]
    errors += [(kernel, 1024, 1.7e308) for kernel in ("online", "three_pass")]
    rows = [row(k, n, relative_error=x * 2.0**-23, compulsory_bytes=None) for k, n, x in errors]
    here = card(tmp_path, rows)
    online, three = (here.most(kernel, what="epsilons") for kernel in ("online", "three_pass"))
    assert values(online + three) == pytest.approx([3])
    assert not here.rates("online")
    drawn = implied("2MN", 4096, [256], "float32", [5])
    assert values(drawn) == pytest.approx([2 * 4096 * 256 * 4 / 5e-6 / 1e9])
