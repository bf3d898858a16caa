"""C-ex: the worked example by the kernel's own statistics."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from analysis.load import COUNTED, Records, load_records
from analysis.published import sources
from analysis.worked_example import ExampleRow, example_rows, example_table
from experiments.data.records import EXAMPLE, Trace, read_records
from tests.conftest import ROOT

Lines = dict[tuple[str, str], tuple[str, ...]]


@pytest.fixture(scope="module")
def evidence() -> Records:
    return load_records(ROOT / COUNTED, ROOT / COUNTED)


@pytest.fixture(scope="module")
def lines(evidence: Records) -> Lines:
    table = example_table(evidence)
    assert table is not None
    return {(line[0], line[1]): tuple(line[2:]) for line in table.lines}


def test_what_was_traced_is_the_input_that_c_prints() -> None:
    example = sources()["C"].example
    assert example is not None
    assert example.input == EXAMPLE


def test_the_kernels_own_statistics_are_the_rows(evidence: Records) -> None:
    rows = example_rows(evidence)
    assert rows is not None
    assert len(rows) == 3
    for row, x in zip(rows, EXAMPLE, strict=True):
        top = max(x)
        exponentials = [math.exp(value - top) for value in x]
        assert row.maximum == top
        assert row.total == pytest.approx(sum(exponentials), rel=1e-6)
        assert row.outputs == pytest.approx([e / sum(exponentials) for e in exponentials], rel=1e-6)
        assert len(row.blocks) == 2
        assert sum(row.added) == pytest.approx(row.total, rel=1e-6)


def test_the_first_row_agrees_and_the_others_do_not(lines: Lines) -> None:
    def wrong(row: str) -> set[str]:
        return {name for (r, name), cells in lines.items() if r == row and cells[-1] == "no"}

    assert wrong("1") == set()
    assert wrong("2") == wrong("3") == {"sum", "outputs"}
    assert lines["1", "m, d after block 1"][1] == "3.0, 1.468280"
    assert lines["2", "sum"] == ("3.717", "1.4427", "-2.2743", "no")
    assert lines["3", "sum"][:2] == ("4.982", "1.5668")


def test_what_a_block_adds_is_told_at_the_maximum_that_it_left() -> None:
    # 1 and then 3: the sum before, 1, is rescaled to exp(-2) and the second block adds 1
    row = ExampleRow(blocks=((1.0, 1.0), (3.0, math.exp(-2) + 1)), outputs=())
    assert row.added == pytest.approx((1.0, 1.0))


def test_printed_outputs_are_added_up_and_all_variants_compared(evidence: Records) -> None:
    table = example_table(evidence)
    assert table is not None
    assert "1.000, 0.909, 1.015" in table.notes[0]
    assert "all 16 recorded calls" in table.notes[1]


def test_a_kernels_other_sum_is_what_the_table_shows(evidence: Records) -> None:
    def spoilt(trace: Trace) -> Trace:
        accesses = [
            a.model_copy(update={"state": a.state and a.state | {"total": 9.0}})
            for a in trace.accesses
        ]
        return trace.model_copy(update={"accesses": accesses})

    table = example_table(Records(traces=tuple(map(spoilt, evidence.traces))))
    assert table is not None
    assert {line[-1] for line in table.lines if line[1] == "sum"} == {"no"}


def test_without_its_trace_there_is_no_table(evidence: Records, tmp_path: Path) -> None:
    others = tuple(t for t in evidence.traces if t.rows != 3)
    assert example_table(Records(traces=others)) is None
    # records of an older version tell of no values
    old = tmp_path / "traces.jsonl"
    old.write_text(
        "".join(
            t.model_copy(update={"input": None}).model_dump_json(exclude_none=True) + "\n"
            for t in evidence.traces
        )
    )
    assert example_rows(Records(traces=tuple(read_records(old, Trace)))) is None
