"""C-viz: steps are the recorded accesses, and every number on them is the trace's."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from analysis.load import Records
from analysis.stepper import stepper_data
from experiments.data.records import Trace
from tests.analysis.stepping import CASES, EVIDENCE, case
from tests.conftest import ROOT

TRACES = [trace for trace in EVIDENCE.traces if trace.operation == "softmax"]


def name(case: dict[str, Any]) -> str:
    return f"{case['variant']}-{case['shape']}-{case['block']}"


every = pytest.mark.parametrize("case", CASES, ids=name)


def only(**changes: Any) -> Records:
    """One trace of online, changed."""
    trace = next(t for t in TRACES if t.kernel == "online,block_size=2" and t.rows == 2)
    return Records(traces=(trace.model_copy(update=changes),))


def test_every_recorded_softmax_can_be_chosen_and_each_once() -> None:
    assert len(CASES) == len(TRACES) == len({name(case) for case in CASES})
    assert {c["variant"] for c in CASES} == {
        "naive", "torch", "three_pass", "fused", "fused_row", "fused_multirow", "cluster_reduce",
        "hybrid", "online", "auto",
    }  # fmt: skip
    wanted = {(shape, block) for shape in ("2×8", "3×8") for block in ("2", "4", "8")}
    assert wanted < {(c["shape"], c["block"]) for c in CASES if c["variant"] == "online"}


@every
def test_what_was_moved_adds_up_to_the_model(case: dict[str, Any]) -> None:
    trace = next(t for t in TRACES if named(t) == name(case))
    last = case["steps"][-1]
    # naive's int64 indices are no part of its formula
    indices = trace.rows if case["variant"] == "naive" else 0
    assert (last["loads"], last["stores"] - indices) == (trace.model_reads, trace.model_writes)
    assert ("where its model says" in case["note"]) == bool(indices)
    touched = [touch for step in case["steps"] for touch in step["touches"]]
    for kind, total in (("load", last["loads"]), ("store", last["stores"])):
        assert sum(len(t["values"]) for t in touched if t["kind"] == kind) == total
    assert len(touched) == len(trace.accesses)


def named(trace: Trace) -> str:
    eager = trace.kernel in ("naive", "torch")
    block = trace.params.get("block_size") or ("no block" if eager else "whole row")
    return f"{trace.kernel.split(',')[0]}-{trace.rows}×{trace.cols}-{block}"


@every
def test_loads_a_matrix_are_those_that_were_counted_at_other_shapes(case: dict[str, Any]) -> None:
    size = case["rows"] * case["cols"]
    counts = {
        sum(t.loads for t in count.tensors) // (count.rows * count.cols)
        for count in EVIDENCE.counts
        if count.kernel == case["variant"]
    }
    assert case["steps"][-1]["loads"] // size in counts


@every
def test_the_end_holds_each_rows_probabilities(case: dict[str, Any]) -> None:
    rows = {key: row for step in case["steps"] for key, row in step["rows"].items()}
    assert set(rows) == {str(row) for row in range(case["rows"])}
    for key, told in rows.items():
        x = case["input"][int(key)]
        total = sum(math.exp(value - max(x)) for value in x)
        p = [math.exp(value - max(x)) / total for value in x]
        assert told["sum"] == pytest.approx(1, abs=1e-6)
        assert told["cells"][2:] == [
            f"{told[k]:.4f}" for k in ("least", "greatest", "sum", "entropy")
        ]
        assert (told["least"], told["greatest"]) == pytest.approx((min(p), max(p)), rel=1e-5)
        assert told["entropy"] == pytest.approx(-sum(q * math.log(q) for q in p), rel=1e-5)
        if case["variant"] == "torch":
            assert told["maximum"] is None
        else:
            assert (told["maximum"], told["total"]) == pytest.approx((max(x), total), rel=1e-5)


def test_statistics_are_the_kernels_own_where_it_keeps_them() -> None:
    for variant, block, own in (
        ("online", "2", ["maximum", "total"]), ("three_pass", "2", ["maximum", "total"]),
        ("naive", "no block", ["maximum", "total"]), ("hybrid", "8", []),
        ("fused", "whole row", []), ("torch", "no block", []),
    ):  # fmt: skip
        assert case(variant, block=block)["steps"][-1]["rows"]["1"]["own"] == own, variant


def test_traces_without_values_give_no_case() -> None:
    assert stepper_data(Records()) == {"cases": []}
    assert stepper_data(only(input=None)) == {"cases": []}
    assert stepper_data(only(accesses=[])) == {"cases": []}


def test_what_a_trace_cannot_write_as_a_number_is_still_shown() -> None:
    (trace,) = only().traces
    hurt = [
        a.model_copy(update={"state": {"total": "nan", "v": ["-inf", 1.0]}}) for a in trace.accesses
    ]
    data = stepper_data(only(accesses=hurt))
    json.dumps(data, allow_nan=False)
    assert "total = nan" in data["cases"][0]["steps"][1]["text"]


def test_a_planted_value_is_what_the_steps_show() -> None:
    (trace,) = only().traces
    spoilt = [
        a.model_copy(update={"values": [0.5] * len(a.values or ())}) if a.kind == "store" else a
        for a in trace.accesses
    ]
    told = stepper_data(only(accesses=spoilt))["cases"][0]["steps"][-1]["rows"]["1"]
    assert (told["sum"], told["greatest"]) == (4.0, 0.5)


def test_the_page_takes_nothing_from_the_net_and_sets_no_markup() -> None:
    for kind in ("html", "js", "css"):
        text = (ROOT / "analysis" / "stepper" / f"stepper.{kind}").read_text(encoding="utf-8")
        for forbidden in (
            "innerHTML",
            "insertAdjacentHTML",
            "outerHTML",
            "http:",
            "https:",
            "url(",
        ):
            assert forbidden not in text
