"""What counts and counters say beside a model: a verdict in a few words."""

from __future__ import annotations

from pathlib import Path

import pytest

from analysis.figures.traffic import counted_verdict, measured_verdict
from analysis.load import Records
from analysis.tables import tables_of
from tests.analysis.drawing import inputs_of
from tests.analysis.plausible import row
from tests.analysis.records import count, counters, h200

FAR = (4096, 131072)


def test_a_variant_that_no_counter_saw_stands_at_its_largest_counted_shape(tmp_path: Path) -> None:
    counts = (count("fused", 5, 8192), count("fused", 5, 1024), count("online"))
    rows = [row(kernel, 256) for kernel in ("fused", "online", "naive")]
    inputs = inputs_of(tmp_path, rows, Records(counts=counts, counters=tuple(h200())))
    table = tables_of(inputs, ["traffic"])[0]["traffic"]
    lines = [line[:4] for line in table.lines if line[3] == "any"]
    assert lines == [["fused", "5×8192", "float32", "any"]]
    [naive] = [line for line in table.lines if line[:2] == ["naive", "4096×131072"]]
    assert naive[4] == "5.000"
    assert table.data is not None
    assert {"units_of_mn", "bytes", "model_bytes", "verdict"} <= {*table.data}


def test_a_count_is_exact_or_differs_in_the_models_words() -> None:
    fault = count("online", model_reads=5 * 8192, difference="reads 2MN where the model says MN")
    assert counted_verdict("reads", fault) == "reads 2MN where the model says MN"
    assert counted_verdict("writes", fault) == "exact"
    assert counted_verdict("writes", count("naive")) == "nominal, int64 indices"
    assert counted_verdict("reads", count("naive")) == "nominal"


@pytest.mark.parametrize(("reads", "backend", "expected"), [
    (2.0, "triton", "agrees"), (2.019, "triton", "agrees"), (1.981, "triton", "agrees"),
    (1.979, "triton", "L2 served re-reads"), (2.1, "triton", "unexplained"),
    (3.0, "torch", "another algorithm"), (3.0, "inductor", "another algorithm"),
])  # fmt: skip
def test_dram_reads_agree_within_a_hundredth_or_say_why(
    reads: float, backend: str, expected: str
) -> None:
    seen = counters("online", *FAR, reads, 1.0)
    assert measured_verdict("DRAM", "reads", seen.dram_read_bytes, seen, backend) == expected


def test_spills_and_late_writes_have_their_names() -> None:
    seen = counters("fused_row", *FAR, 1.5, 0.9, local_load_bytes=2**30)
    reads, writes = seen.dram_read_bytes, seen.dram_write_bytes
    assert measured_verdict("DRAM", "reads", reads, seen, "triton") == "spills"
    assert measured_verdict("DRAM", "writes", writes, seen, "triton") == "dirty lines unwritten"
