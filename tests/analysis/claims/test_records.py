"""Checks of traffic, outcomes, answers, and what is printed or not recorded."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from analysis.load import Records, load_records
from experiments.data.files import RowsError
from experiments.data.records import TensorCount, Trace
from tests.analysis.claims.bench import found, judgement, untestable
from tests.analysis.plausible import interpreted, row, unsupported
from tests.analysis.records import count, counters, trace

ROWS = [row("online", 1024)]
EXACT = {
    "traffic": {"by": "counts", "variant": "online", "formula": "3MN"},
    "expect": {"equals": 1},
}
READS = {
    "traffic": {"by": "counters", "variant": "online", "kind": "reads", "formula": "2MN"},
    "expect": {"about": 1, "within": "1%"},
}


def seen(reads: float) -> Records:
    """An H200's counters of online."""
    return Records(counters=(counters("online", 4096, 16384, reads=reads, writes=0.9),))


def test_counts_are_exact_and_what_is_nominal_is_no_count(tmp_path: Path) -> None:
    right = count("online")
    one = judgement(tmp_path / "a", ROWS, EXACT, records=Records(counts=(right,)))
    assert one.verdict == "supported"
    assert one.evidence.startswith("counts ")
    assert "nominal" not in one.evidence
    operations = Records(counts=(right.model_copy(update={"method": "dispatch"}),))
    eager = judgement(tmp_path / "eager", ROWS, EXACT, records=operations)
    assert (eager.verdict, "online nominally" in eager.evidence) == ("supported", True)
    nominal = right.model_copy(update={"reason": "nominal: taken from the model"})
    lacking = untestable(tmp_path / "b", ROWS, EXACT, records=Records(counts=(nominal,)))
    assert lacking.needs == "make counts"
    more = TensorCount(**right.tensors[0].model_dump() | {"loads": right.tensors[0].loads + 1})
    wrong = Records(counts=(right.model_copy(update={"tensors": [more]}),))
    assert found(tmp_path / "c", ROWS, EXACT, records=wrong)[0] == "refuted"


def test_traffic_relative_to_a_variant_pairs_like_shapes(tmp_path: Path) -> None:
    counts = (count("online"), count("fused"), count("fused", cols=64))
    traffic = {"by": "counts", "variant": "online", "relative_to": "fused"}
    check = {"traffic": traffic, "expect": {"equals": 1.5}}
    verdict, estimate = found(tmp_path, ROWS, check, records=Records(counts=counts))
    assert (verdict, estimate.value) == ("supported", 1.5)


def test_counters_are_those_of_the_card(tmp_path: Path) -> None:
    assert found(tmp_path / "a", ROWS, READS, records=seen(2.0))[0] == "supported"
    other = [row("online", 1024, gpu="NVIDIA A100")]
    lacking = untestable(tmp_path / "b", other, READS, records=seen(2.0))
    assert "experiments.counters kernel=online" in lacking.needs


def test_an_optional_check_is_no_lack_and_yet_can_refute(tmp_path: Path) -> None:
    checks = {"printed": {"top": 2}, "expect": {"equals": 2}}, READS | {"optional": True}
    assert found(tmp_path / "a", ROWS, *checks)[0] == "supported"
    assert found(tmp_path / "b", ROWS, *checks, records=seen(3.0))[0] == "refuted"
    assert found(tmp_path / "c", ROWS, checks[0], READS)[0] == "not testable here"


@pytest.mark.parametrize(("fields", "verdict"), [
    ({"among": ["unsupported"], "reason": "fit on chip"}, "supported"),
    ({"among": ["unsupported"], "reason": "shared memory"}, "refuted"),
    ({"among": ["ok"]}, "refuted"), ({"among": ["out_of_memory", "unsupported"]}, "supported"),
])  # fmt: skip
def test_an_outcome_is_a_status_and_its_reason(
    tmp_path: Path, fields: dict[str, Any], verdict: str
) -> None:
    check = {"outcome": {"variant": "fused", "where": {"cols": 65536}} | fields}
    rows = [unsupported("fused", 65536), row("fused", 256)]
    assert found(tmp_path, rows, check)[0] == verdict


def test_a_limit_of_a_card_is_known_by_launches_alone(tmp_path: Path) -> None:
    ok = {"variant": "fused", "among": ["ok"]}
    rows = [interpreted("fused", 256), unsupported("fused", 65536, gpu="A CPU")]
    assert found(tmp_path / "a", rows[:1], {"outcome": ok})[0] == "supported"
    launched = {"outcome": ok | {"launched": True}}
    assert "a card decided" in untestable(tmp_path / "b", rows, launched).why
    assert found(tmp_path / "c", [row("fused", 256), unsupported("fused", 65536)], launched)[0] == (
        "supported"
    )


@pytest.mark.parametrize(("most", "verdict"), [
    (3.1, "supported"), (2.0, "inconclusive"), (0.9, "refuted"),
])  # fmt: skip
def test_two_answers_are_as_far_apart_as_their_errors_allow(
    tmp_path: Path, most: float, verdict: str
) -> None:
    errors = {"online": 2 * 2.0**-23, "three_pass": 2.0**-23}
    rows = [row(kernel, 256, relative_error=error) for kernel, error in errors.items()]
    check = {"agreement": {"variants": ["online", "three_pass"]}, "expect": {"at_most": most}}
    judged, estimate = found(tmp_path, rows, check)
    assert judged == verdict
    assert (estimate.low, estimate.high) == pytest.approx((1, 3))


def test_traced_values_are_compared_where_both_stored_them(tmp_path: Path) -> None:
    def storing(kernel: str, value: float) -> Trace:
        accesses = [
            a.model_copy(update={"values": [value] * (a.last - a.first + 1)})
            for a in trace(kernel).accesses
        ]
        return trace(kernel).model_copy(update={"accesses": accesses})

    variants = {"variants": ["online", "fused"], "by": "traces"}
    check = {"agreement": variants, "expect": {"at_most": 0.05}}
    for second, verdict in ((0.5, "supported"), (0.45, "refuted")):
        records = Records(traces=(storing("online", 0.5), storing("fused", second)))
        one = judgement(tmp_path / str(second), ROWS, check, records=records)
        assert (one.verdict, one.evidence) == (verdict, "8 traced values")
    assert untestable(tmp_path, ROWS, check).needs == "make counts"


def test_the_hosts_cost_is_read_where_it_lies_below_the_rows(tmp_path: Path) -> None:
    def layer(name: str, base: str, us: float, **ends: float) -> dict[str, Any]:
        bounds = {"host_low_us": 0.9 * us, "host_high_us": 1.1 * us}
        return {"layer": name, "base": base, "host_us": us, "ratio": us / 5} | bounds | ends

    timed = [layer("torch", "torch", 5.0, ratio_low=1.0, ratio_high=1.0),
             layer("plain", "torch", 6.0, ratio_low=1.19, ratio_high=1.21),
             layer("older", "torch", 6.0), layer("peer", "torch", 12.0)]  # fmt: skip
    record = {"gpu": "NVIDIA H200", "shape": [128, 256], "layers": timed}
    (tmp_path / "hostcost.json").write_text(json.dumps(record))
    records = load_records(tmp_path, tmp_path)
    for name, over, ends in (
        ("plain", None, (1.2, 1.19, 1.21)),
        ("older", None, (1.2, 5.4 / 5.5, 6.6 / 4.5)),
        ("plain", "peer", (0.5, 5.4 / 13.2, 6.6 / 10.8)),
    ):
        check = {"host": {"layer": name, "over": over}, "expect": {"at_most": 1.1}}
        verdict, estimate = found(tmp_path / f"{name}{over}", ROWS, check, records=records)
        assert (estimate.value, estimate.low, estimate.high) == pytest.approx(ends)
        assert verdict == {"older": "inconclusive"}.get(name, "supported" if over else "refuted")
    check = {"host": {"layer": "absent"}, "expect": {"at_most": 1.1}}
    lacking = untestable(tmp_path / "absent", ROWS, check, records=records)
    assert lacking.needs == "python -m experiments.hostcost"
    (tmp_path / "hostcost.json").write_text("{}")
    with pytest.raises(RowsError, match=r"hostcost\.json: field 'gpu'"):
        load_records(tmp_path, tmp_path)


def test_a_part_that_nothing_records_says_what_it_needs(tmp_path: Path) -> None:
    check = {"unrecorded": {"what": "no row shows it", "needs": "ncu"}}
    assert "no row shows it" in untestable(tmp_path, ROWS, check).why


def test_a_source_without_those_times_or_an_example_decides_nothing(tmp_path: Path) -> None:
    implied = {"kernel": "hybrid", "traffic": "2MN", "series": "a_fig2"}
    above = {"expect": {"above": 0}}
    assert "prints no time" in untestable(tmp_path / "a", ROWS, {"implied": implied} | above).why
    example = {"example": {"part": "sums"}} | above
    assert "prints no example" in untestable(tmp_path / "b", ROWS, example).why
    lacking = untestable(tmp_path / "c", ROWS, example, source="C")
    assert lacking.needs == "make counts"
