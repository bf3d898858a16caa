"""C-viz: steps are the recorded accesses, and every number on them is the trace's."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from analysis.load import COUNTED, Records, load_records
from analysis.stepper import stepper_data
from experiments.count import configurations, traces_of
from experiments.data.records import Trace
from experiments.sweep.client import Worker
from tests.conftest import ROOT

RECORDS = load_records(ROOT / COUNTED, ROOT / COUNTED)
TRACES = [trace for trace in RECORDS.traces if trace.operation == "softmax"]
SOFTMAX = {trace.kernel.split(",")[0] for trace in TRACES}
EVERY: list[dict[str, Any]] = stepper_data(RECORDS)["cases"]
CASES = [case for case in EVERY if case["variant"] in SOFTMAX]


def name_of(trace: Trace) -> tuple[str, str, str]:
    eager = trace.kernel in ("naive", "torch")
    block = trace.params.get("block_size") or ("no block" if eager else "whole row")
    return trace.kernel.split(",")[0], f"{trace.rows}×{trace.cols}", str(block)


def test_every_recorded_softmax_is_a_case_whose_moves_add_up_to_the_model() -> None:
    traces = {name_of(trace): trace for trace in TRACES}
    assert {(c["variant"], c["shape"], c["block"]) for c in CASES} == set(traces)
    assert len(CASES) == len(TRACES) == len(traces) < len(EVERY)
    for case in CASES:
        name = case["variant"], case["shape"], case["block"]
        trace, last = traces[name], case["steps"][-1]
        # naive's int64 indices are not part of its formula
        indices = trace.rows if case["variant"] == "naive" else 0
        moved = (last["loads"], last["stores"] - indices)
        assert moved == (trace.model_reads, trace.model_writes), name
        assert ("where its model says" in case["note"]) == bool(indices), name
        touched = [touch for step in case["steps"] for touch in step["touches"]]
        assert len(touched) == len(trace.accesses), name


def test_the_end_holds_each_rows_probabilities() -> None:
    for case in CASES:
        rows = {key: row for step in case["steps"] for key, row in step["rows"].items()}
        assert set(rows) == {str(row) for row in range(case["rows"])}
        for key, row in rows.items():
            x = case["input"][int(key)]
            total = sum(math.exp(value - max(x)) for value in x)
            p = [math.exp(value - max(x)) / total for value in x]
            entropy = -sum(q * math.log(q) for q in p)
            numbers = [row[name] for name in ("least", "greatest", "sum", "entropy")]
            assert numbers == pytest.approx([min(p), max(p), 1, entropy], rel=1e-5)
            assert row["cells"][2:] == [f"{number:.4f}" for number in numbers]
            if case["variant"] != "torch":  # inside its kernel nothing is recorded
                found = (row["maximum"], row["total"])
                assert found == pytest.approx((max(x), total), rel=1e-5)


def test_a_step_names_the_variables_that_its_own_program_changed() -> None:
    before: dict[str, dict[str, Any]] = {}
    wanted = ("online", "2×8", "2")
    case = next(c for c in CASES if (c["variant"], c["shape"], c["block"]) == wanted)
    for step in case["steps"][1:]:
        program, state = step["part"].split()[0], dict(step["state"])
        known = before.get(program, {})
        assert step["changed"] == [name for name in state if known.get(name) != state[name]]
        before[program] = state
    assert set(before) == {"0", "1"}


def test_an_output_row_is_rescaled_with_the_sum_and_what_all_rows_share_is_no_row(
    tmp_path: Path,
) -> None:
    worker = Worker("cpu", 0, tmp_path / "worker.log")
    try:
        (config,) = configurations(["weighted_online"]).values()
        traces = list(traces_of(worker, "weighted_online", config))
    finally:
        worker.stop()
    cases = stepper_data(Records(traces=tuple(traces)))["cases"]
    assert [case["shape"] for case in cases] == ["2×8"] * 3 + ["3×8"] * 3 + ["4×8"]
    for case in cases:
        sizes = {one["name"]: (one["rows"], one["width"]) for one in case["tensors"]}
        assert sizes == {"x": (case["rows"], 8), "v": (8, 4), "y": (case["rows"], 4)}
        vectors: dict[int, list[float]] = {}
        for step in case["steps"][1:]:
            (touch,), state = step["touches"], dict(step["state"])
            if touch["tensor"] == "v":
                vectors[touch["row"]] = touch["values"]
                assert step["rows"] == {}
            elif touch["kind"] == "store":
                x = case["input"][touch["row"]]
                p = [math.exp(value - max(x)) for value in x]
                y = [sum(p[j] * vectors[j][i] for j in range(8)) / sum(p) for i in range(4)]
                assert touch["values"] == pytest.approx(y, rel=1e-4, abs=1e-5)
                assert state["total"] == pytest.approx(sum(p), rel=1e-5)
                assert step["rows"][str(touch["row"])]["cells"][2:] == [""] * 4
        assert (case["steps"][-1]["loads"], case["steps"][-1]["stores"]) == (
            5 * 8 * case["rows"],
            4 * case["rows"],
        )
        assert "the row of output is rescaled" in " ".join(s["text"] for s in case["steps"])


def test_a_trace_without_values_gives_no_case_and_odd_values_are_shown() -> None:
    (trace,) = (t for t in TRACES if t.kernel == "online,block_size=2" and t.rows == 2)

    def only(**changes: Any) -> dict[str, Any]:
        return stepper_data(Records(traces=(trace.model_copy(update=changes),)))

    assert only(input=None) == only(accesses=[]) == {"cases": []}
    state = {"total": "nan", "v": ["-inf", 1.0]}
    data = only(accesses=[a.model_copy(update={"state": state}) for a in trace.accesses])
    json.dumps(data, allow_nan=False)
    assert "total = nan" in data["cases"][0]["steps"][1]["text"]


def test_the_page_takes_nothing_from_the_net_and_sets_no_markup() -> None:
    for kind in ("html", "js", "css"):
        text = (ROOT / "analysis" / "stepper" / f"stepper.{kind}").read_text(encoding="utf-8")
        for forbidden in ("innerHTML", "insertAdjacentHTML", "outerHTML", "http", "url("):
            assert forbidden not in text
