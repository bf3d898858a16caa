"""Which times a check pairs, which it leaves out, and what it makes of them."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import pytest

from experiments.data.files import RowsError
from experiments.data.rows import Row
from tests.analysis.claims.bench import (
    WIDTHS,
    found,
    judgement,
    judgements,
    pairs,
    ratio,
    timed,
    untestable,
)
from tests.analysis.loss_rows import loss
from tests.analysis.plausible import row, unsupported

LINE = {"rows": 4096, "dtype": "float32"}


@pytest.mark.parametrize("change", [
    {"sweep": "other"}, {"card": 1}, {"round": 1}, {"cache": "warm"}, {"timer": "graph"},
    {"dtype": "float16"}, {"rows": 8192},
])  # fmt: skip
def test_neighbours_of_another_visit_protocol_or_place_never_pair(
    tmp_path: Path, change: dict[str, Any]
) -> None:
    rows = [timed("fused", n, 10.0) for n in WIDTHS]
    rows += [timed("torch", n, 20.0, key=f"t{n}", **change) for n in WIDTHS]
    untestable(tmp_path, rows, ratio({"above": 1}))


def test_of_several_rounds_the_middle_counts_with_an_interval_around_all(tmp_path: Path) -> None:
    rows = [
        timed(kernel, cols, time, round=visit)
        for visit, speed in enumerate((1.8, 2.0, 2.4))
        for cols in WIDTHS
        for kernel, time in (("fused", 10.0), ("torch", 10.0 * speed))
    ]
    verdict, estimate = found(tmp_path, rows, ratio({"at_least": 1.9}))
    assert verdict == "inconclusive"
    expected = 2.0, 1.8 * 0.99 / 1.01, 2.4 * 1.01 / 0.99
    assert (estimate.value, estimate.low, estimate.high) == pytest.approx(expected)


def test_rows_above_the_roof_and_stale_ones_never_count(tmp_path: Path) -> None:
    rows = [timed("torch", n, 80.0, key=f"stale-{n}") for n in WIDTHS[:2]]
    rows += [*pairs(2, 2), timed("fused", 4096, 1.0), timed("torch", 4096, 20.0)]
    rows += [timed("copy", cols, 9.0) for cols in WIDTHS]
    one = judgement(tmp_path, rows, ratio({"about": 2, "within": "3%"}))
    assert one.verdict == "supported"
    assert "2 points" in one.measured
    assert len(one.rows) == 4


def test_the_interpreter_s_rows_and_unsound_intervals_are_no_times(tmp_path: Path) -> None:
    place = {"gpu": "A CPU", "device": "cpu"}
    rows = [timed("torch", n, 20.0, **place) for n in WIDTHS]
    rows += [timed("fused", n, 10.0, backend="interpreter", **place) for n in WIDTHS]
    one = judgement(tmp_path / "0", rows, ratio({"above": 1}))
    assert one.verdict == "not testable here"
    assert "interpreter" in one.why
    for bounds in ({"time_low_us": 11.0}, {"time_high_us": 9.0}):
        unsound = [made.model_copy(update=bounds) if made.kernel == "fused" else made
                   for made in pairs(2, 2, 2)]  # fmt: skip
        untestable(tmp_path / str(bounds), unsound, ratio({"above": 1}))


def test_where_a_variant_cannot_run_it_does_not_win(tmp_path: Path) -> None:
    rows = [*pairs(2), *(timed("torch", n, 9.0) for n in WIDTHS[1:])]
    rows += [unsupported("fused", n) for n in WIDTHS[1:]]
    left_out = ratio({"above": 1}, take="most")
    fails = ratio({"above": 1}, take="most", unsupported="fails")
    assert found(tmp_path / "a", rows, left_out)[0] == "supported"
    assert found(tmp_path / "b", rows, fails)[0] == "refuted"


def test_what_is_missing_comes_with_the_command_that_gives_it(tmp_path: Path) -> None:
    few = untestable(tmp_path / "few", pairs(2), ratio({"above": 1}))
    assert "only 1 point of 3" in few.why
    lacking = untestable(tmp_path, [timed("naive", 256, 9.0)], ratio({"above": 1}))
    assert "timed rows of torch and fused at M = 4096, N = 1024, 2048, 4096" in lacking.why
    assert lacking.needs == (
        "python -m experiments.run kernel=torch,fused grid=point grid.rows=4096 "
        "grid.cols='[1024,2048,4096]' dtype=float32"
    )


def test_every_gpu_has_a_verdict_of_its_own(tmp_path: Path) -> None:
    rows = pairs(1, 2, 8)
    slow = [timed(r.kernel, r.cols, 40.0 / (r.time_us or 1), gpu="NVIDIA A100") for r in rows]
    one, other = judgements(tmp_path, [*rows, *slow], ratio({"above": 1}))
    assert (one.gpu, one.verdict) == ("NVIDIA A100", "refuted")
    assert (other.gpu, other.verdict) == ("NVIDIA H200", "supported")
    assert re.fullmatch(r"rows [0-9a-f]{12} \(6\), events cold", other.evidence)


def test_a_tunable_s_setting_is_a_variant_of_its_own(tmp_path: Path) -> None:
    rows = [timed("torch", n, 20.0) for n in WIDTHS]
    # what a row left to the kernel is as in the file, for whoever does not name it
    left = {"block_size": 1024, "num_warps": None}
    rows += [timed("online", n, 40.0, params=left) for n in WIDTHS]
    rows += [timed("online", n, 10.0, key=f"w{n}", params={"block_size": 4096}) for n in WIDTHS]
    default = ratio({"above": 1}, bottom="online")
    named = ratio({"above": 1}, bottom="online, block_size=4096")
    assert found(tmp_path / "a", rows, default)[0] == "refuted"
    assert found(tmp_path / "b", rows, named)[0] == "supported"


@pytest.mark.parametrize(("take", "speeds", "verdict", "value"), [
    ("geomean", (1, 2, 8), "supported", math.prod([1, 2, 8]) ** (1 / 3)),
    ("each", (2, 2, 3), "supported", 2.0), ("each", (2, 1.01, 2), "inconclusive", 1.01),
    ("each", (2, 0.9, 1.01), "refuted", 0.9),
    ("most", (2, 2, 0.5), "supported", 2 / 3), ("most", (2, 0.5), "refuted", 1 / 2),
    ("most", (2, 1.01, 0.5), "inconclusive", 2 / 3),
    ("min", (2, 2, 0.5), "refuted", 0.5), ("max", (0.5, 0.5, 2), "supported", 2.0),
])  # fmt: skip
def test_points_are_taken_as_the_claim_says(
    tmp_path: Path, take: str, speeds: tuple[float, ...], verdict: str, value: float
) -> None:
    judged, estimate = found(tmp_path, pairs(*speeds), ratio({"above": 1}, take=take))
    assert (judged, estimate.value) == (verdict, pytest.approx(value))


def test_peaks_lie_anywhere(tmp_path: Path) -> None:
    peaks = ratio({"above": 1}, take="peaks", column="effective_gbps")
    verdict, estimate = found(tmp_path, pairs(2, 4, 0.5), peaks)
    # torch's peak is at 5 µs, fused's at 10 µs, both at the widest rows
    assert (verdict, estimate.value) == ("supported", pytest.approx(2.0))


def test_spreads_of_two_variants_are_compared(tmp_path: Path) -> None:
    spreads = ratio({"below": 1}, take="spread", column="effective_gbps")
    verdict, estimate = found(tmp_path, pairs(1, 2, 4), spreads)
    # at 10 µs everywhere fused's bandwidth grows fourfold with the width, torch's stays as it is
    assert (verdict, estimate.value) == ("supported", pytest.approx(0.25))


def rates(*gbps: float) -> list[Row]:
    """fused at these GB/s at 1024, 2048, 4096 columns."""
    sizes = zip(WIDTHS, gbps, strict=False)
    return [row("fused", n, time_us=2 * 4096 * n * 4 / rate / 1e3) for n, rate in sizes]


@pytest.mark.parametrize(("fields", "expect", "verdict", "value"), [
    ({"take": "spread"}, {"at_most": 1.6}, "supported", 1.5),
    ({"take": "spread"}, {"at_most": 1.5}, "inconclusive", 1.5),
    ({"take": "spread"}, {"at_most": 1.4}, "refuted", 1.5),
    ({"take": "trend", "from": 1024, "to": 4096}, {"at_least": 1.2}, "supported", 1.25),
    ({"take": "trend", "from": 1024, "to": 4096}, {"at_least": 1.3}, "refuted", 1.25),
    ({"take": "each"}, {"at_least": 2200}, "refuted", 2000),
])  # fmt: skip
def test_one_variant_s_rates_are_taken_as_the_claim_says(
    tmp_path: Path, fields: dict[str, Any], expect: dict[str, Any], verdict: str, value: float
) -> None:
    column = {"variant": "fused", "column": "effective_gbps", "where": LINE}
    check = {"value": column | fields, "expect": expect}
    judged, estimate = found(tmp_path / "a", rates(2000, 3000, 2500), check)
    assert (judged, estimate.value) == (verdict, pytest.approx(value))
    if fields["take"] in ("spread", "trend"):  # neither is made of one point
        untestable(tmp_path / "b", rates(2000), check)


@pytest.mark.parametrize(("source", "gpu", "verdict", "text"), [
    ("A", "NVIDIA H200", "not testable here", "A names no card"),
    ("E", "NVIDIA H200", "not testable here", "E measured on a NVIDIA GeForce RTX 3090 Ti"),
    ("E", "NVIDIA GeForce RTX 3090 Ti", "supported", "as claimed"),
])  # fmt: skip
def test_absolute_numbers_are_judged_on_the_source_s_card_alone(
    tmp_path: Path, source: str, gpu: str, verdict: str, text: str
) -> None:
    check = {"value": {"variant": "fused", "card": "source"}, "expect": {"above": 0}}
    one = judgement(tmp_path, [row("fused", 1024, gpu=gpu)], check, source=source)
    assert one.verdict == verdict
    assert text in one.why


def point(own: float, cols: int = 16384, timer: str = "events", **times: float) -> list[Row]:
    """auto and others at one shape, three rounds."""
    return [
        row(kernel, cols, time_us=time, round=i, timer=timer, key=f"{kernel}-{cols}-{timer}")
        for kernel, time in ({"auto": own} | times).items()
        for i in range(3)
    ]


def limit(expect: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"limit": {"over": "peers", "timer": "events"} | fields, "expect": expect}


PEERS = point(100.0, torch=200.0, quack=120.0, copy=95.0)
TWO = point(100.0, quack=120.0) + point(100.0, cols=8192, quack=90.0)
WIDE_AND_SHORT = point(100.0, quack=120.0) + point(10.0, cols=256, quack=20.0)


@pytest.mark.parametrize(("rows", "check", "verdict", "value"), [
    (PEERS, limit({"at_least": 1.2}), "inconclusive", 1.2),  # the best peer decides
    (TWO, limit({"at_least": 0.98}), "refuted", 0.9),
    (TWO, limit({"at_least": 1.03}, take="geomean"), "supported", (1.2 * 0.9) ** 0.5),
    # points are narrowed by bytes, by time and by shape
    (WIDE_AND_SHORT, limit({"above": 1}, moved=256_000_000), "supported", 1.2),
    (WIDE_AND_SHORT, limit({"above": 1}, faster_than=25), "supported", 2.0),
    (WIDE_AND_SHORT, limit({"above": 1}, slower_than=25), "supported", 1.2),
    (WIDE_AND_SHORT, limit({"above": 1}, where={"cols": {"to": 1024}}), "supported", 2.0),
    (WIDE_AND_SHORT, limit({"above": 1}, where={"cols": {"from": 16384}}), "supported", 1.2),
    # a gap is in µs
    (point(10.0, cols=256, torch=30.0, copy=9.8),
     limit({"at_least": -0.5}, over="copy", gap=True, faster_than=25), "supported", -0.2),
    # timers are judged apart, and the first that rows have is taken
    (point(100.0, quack=120.0) + point(100.0, timer="graph", quack=90.0),
     limit({"above": 1}, timer=["chain", "graph", "events"]), "refuted", 0.9),
    # and so are widths that nobody tuned for
    (PEERS + point(100.0, cols=16385, quack=90.0),
     limit({"above": 1}, widths="held out"), "refuted", 0.9),
    (PEERS + point(100.0, cols=16385, quack=90.0), limit({"above": 1}), "supported", 1.2),
])  # fmt: skip
def test_auto_is_compared_with_its_rivals_at_the_points_named(
    tmp_path: Path, rows: list[Row], check: dict[str, Any], verdict: str, value: float
) -> None:
    judged, estimate = found(tmp_path, rows, check, source="this project")
    assert (judged, estimate.value) == (verdict, pytest.approx(value))


def test_a_limit_names_its_worst_point_its_rows_and_what_rows_lack(tmp_path: Path) -> None:
    one = judgement(tmp_path / "a", TWO, limit({"at_least": 0.98}))
    assert "4096×8192 float32" in one.measured
    rows = point(100.0, quack=120.0, torch=300.0)
    one = judgement(tmp_path / "b", rows, limit({"above": 1}))
    assert {(r["kernel"], r["time_us"]) for r in one.rows} == {("auto", 100.0), ("quack", 120.0)}
    lacking = untestable(
        tmp_path / "c", point(100.0, torch=120.0), limit({"above": 1}, over="quack")
    )
    assert "needs timed rows of auto and quack by events" in lacking.why
    assert lacking.needs == "make sweep EXPERIMENT=limits"


def of_loss(**fields: Any) -> dict[str, Any]:
    return limit({"at_least": 0.97}, operation="cross_entropy") | {
        "limit": {"timer": "events", "over": "roof", "operation": "cross_entropy"} | fields
    }


def test_a_limit_of_another_operation_is_of_its_own_kernels(tmp_path: Path) -> None:
    rows = loss({"ce_auto": 0.24, "ce_quack": 0.30, "read": 0.238})
    rows += point(100.0, quack=50.0, copy=10.0)  # softmax is no part of it
    judged, estimate = found(tmp_path, rows, of_loss(), source="this project")
    # what a row moves besides is least where rows are widest
    assert (judged, estimate.value) == ("supported", pytest.approx(0.238 / 0.24, abs=3e-4))
    large = of_loss(over="peers", moved=2 * 10**9)
    judged, estimate = found(tmp_path, rows, large, source="this project")
    assert (judged, estimate.value) == ("supported", pytest.approx(1.25))
    mean = of_loss(over="quack", take="geomean")
    assert found(tmp_path, rows, mean, source="this project")[1].value == pytest.approx(1.25)
    lacking = untestable(tmp_path, rows, of_loss(over="liger"))
    assert "auto of cross_entropy and liger by events" in lacking.why


def test_another_variant_may_stand_for_ours(tmp_path: Path) -> None:
    rows = loss({"ce_auto": 0.24, "ce_cluster": 0.20, "ce_quack": 0.30, "read": 0.19})
    check = of_loss(over="peers", take="geomean", variant="ce_cluster")
    assert found(tmp_path, rows, check, source="this project")[1].value == pytest.approx(1.5)


def test_two_calls_are_added_up_against_one(tmp_path: Path) -> None:
    rows = [timed(kernel, n, time) for n in WIDTHS
            for kernel, time in (("torch", 10.0), ("naive", 20.0), ("fused", 15.0))]  # fmt: skip
    rows = rows[:-3] + [one for one in rows[-3:] if one.kernel != "naive"]  # no sum, no ratio
    check = ratio({"above": 1}, plus="naive")
    one = judgement(tmp_path, rows, check)
    assert one.estimate is not None
    assert one.estimate.value == pytest.approx(2.0)
    assert len(one.rows) == 2 * 3
    with pytest.raises(RowsError, match="plus adds times"):
        judgement(tmp_path / "rate", rows, ratio({"above": 1}, plus="naive", take="min",
                  column="effective_gbps"))  # fmt: skip


def test_a_time_of_its_own_counts_above_the_roof_and_a_rate_does_not(tmp_path: Path) -> None:
    rows = [timed("fused", 1024, 8.0), timed("copy", 1024, 9.0)]
    value = {"variant": "fused", "where": LINE | {"cols": 1024}}
    check = {"value": value, "expect": {"at_most": 10}}
    one = judgement(tmp_path / "time", rows, check)
    assert (one.verdict, len(one.rows)) == ("supported", 1)
    rate = {"value": value | {"column": "effective_gbps"}, "expect": {"at_least": 1}}
    untestable(tmp_path / "rate", rows, rate)


def test_a_time_may_be_claimed_of_one_card_alone(tmp_path: Path) -> None:
    for card, verdict in (("NVIDIA H200", "supported"), ("NVIDIA A100", "not testable here")):
        check = {
            "value": {"variant": "fused", "where": LINE | {"cols": 1024}, "card": card},
            "expect": {"at_most": 12},
        }
        one = judgement(tmp_path / card, [timed("fused", 1024, 10.0)], check, source="this project")
        assert one.verdict == verdict
