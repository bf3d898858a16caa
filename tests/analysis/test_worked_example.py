"""C-ex: the worked example by the kernel's own statistics."""

from __future__ import annotations

import math

import pytest

from analysis.load import COUNTED, Records, load_records
from analysis.published import sources
from analysis.worked_example import ExampleRow, example_rows, example_table
from experiments.data.records import EXAMPLE, Trace
from tests.conftest import ROOT


@pytest.fixture(scope="module")
def records() -> Records:
    return load_records(ROOT / COUNTED, ROOT / COUNTED)


def test_the_kernels_own_statistics_are_those_of_the_input_that_c_prints(records: Records) -> None:
    example, rows = sources()["C"].example, example_rows(records)
    assert example is not None
    assert example.input == EXAMPLE
    assert rows is not None
    for row, x in zip(rows, EXAMPLE, strict=True):
        exponentials = [math.exp(value - max(x)) for value in x]
        assert row.maximum == max(x)
        assert row.total == pytest.approx(sum(exponentials), rel=1e-6)
        assert row.outputs == pytest.approx([e / sum(exponentials) for e in exponentials], rel=1e-6)
        assert len(row.blocks) == 2
        assert sum(row.added) == pytest.approx(row.total, rel=1e-6)
    # 1 and then 3: the sum before, 1, is rescaled to exp(-2) and the second block adds 1
    row = ExampleRow(blocks=((1.0, 1.0), (3.0, math.exp(-2) + 1)), outputs=())
    assert row.added == pytest.approx((1.0, 1.0))


def test_a_kernels_other_sum_is_what_the_table_shows(records: Records) -> None:
    def spoilt(trace: Trace) -> Trace:
        accesses = [
            a.model_copy(update={"state": a.state and a.state | {"total": 9.0}})
            for a in trace.accesses
        ]
        return trace.model_copy(update={"accesses": accesses})

    table = example_table(Records(traces=tuple(map(spoilt, records.traces))))
    assert table is not None
    assert {line[-1] for line in table.lines if line[1] == "sum"} == {"no"}


def test_without_its_trace_there_is_no_table(records: Records) -> None:
    others = tuple(trace for trace in records.traces if trace.rows != 3)
    assert example_table(Records(traces=others)) is None
    bare = tuple(trace.model_copy(update={"accesses": []}) for trace in records.traces)
    assert example_rows(Records(traces=bare)) is None
    old = tuple(trace.model_copy(update={"input": None}) for trace in records.traces)
    assert example_rows(Records(traces=old)) is None  # records of an older version hold no values
