"""Verdicts of the traffic table, and its three formats."""

from __future__ import annotations

import csv
import io

import pytest

from analysis.agreement import counted_verdict, measured_verdict
from analysis.cells import cells
from analysis.format import Table
from analysis.load import Records
from analysis.tables.traffic import long_table, wide_table
from tests.analysis.evidence import count, counters, h200

FAR = (4096, 131072)


def test_a_count_is_exact_or_told_in_the_models_words() -> None:
    assert counted_verdict("reads", count("online")) == "exact"
    fault = count("online", model_reads=5 * 8192, difference="reads 2MN where the model says MN")
    assert counted_verdict("reads", fault) == "reads 2MN where the model says MN"
    assert counted_verdict("writes", fault) == "exact"


def test_int64_indices_of_naive_are_named_on_writes_alone() -> None:
    assert counted_verdict("writes", count("naive")) == "int64 indices"
    assert counted_verdict("reads", count("naive")) == "exact"


@pytest.mark.parametrize(("kernel", "reads", "backend", "expected"), [
    ("online", 2.0, "triton", "agrees"),
    ("online", 2.019, "triton", "agrees"),
    ("online", 1.981, "triton", "agrees"),
    ("online", 1.979, "triton", "L2 served re-reads"),
    ("torch", 3.0, "torch", "another algorithm"),
    ("compiled", 3.0, "inductor", "another algorithm"),
    ("online", 2.1, "triton", "unexplained"),
])  # fmt: skip
def test_dram_reads_agree_within_a_hundredth_or_say_why(
    kernel: str, reads: float, backend: str, expected: str
) -> None:
    seen = counters(kernel, *FAR, reads, 1.0)
    assert measured_verdict("DRAM", "reads", seen.dram_read_bytes, seen, backend) == expected


def test_spills_and_late_writes_have_their_names() -> None:
    seen = counters("fused_row", *FAR, 1.5, 0.9, local_load_bytes=2**30, local_store_bytes=2**30)
    told = [measured_verdict("DRAM", *kind, seen, "triton") for kind in (
        ("reads", seen.dram_read_bytes), ("writes", seen.dram_write_bytes))]  # fmt: skip
    assert told == ["spills", "dirty lines unwritten"]


def test_the_table_holds_units_and_bytes_of_every_level() -> None:
    found = cells(Records(counts=(count("online"),), counters=tuple(h200())), {"torch": "torch"})
    table = wide_table(found)
    line = next(x for x in table.lines if x[:2] == ["online", "4096×131072"])
    cell = dict(zip(table.heads, line, strict=True))
    assert cell["modelled reads"] == "2.000 (4.29 GB)"
    assert cell["counted reads"].startswith("2.000 (328 kB), exact")
    assert cell["DRAM reads"] == "2.000 (4.29 GB), agrees"
    rows = list(csv.DictReader(io.StringIO(long_table(found).csv())))
    assert {r["level"] for r in rows} == {"modelled", "counted", "L2", "DRAM"}
    torch = [r for r in rows if r["variant"] == "torch" and r["verdict"] == "another algorithm"]
    assert [(r["rows"], r["cols"]) for r in torch] == [("4096", "131072")]


def test_text_is_escaped_for_markdown_and_latex() -> None:
    table = Table("50 % of fused_row", ["a_b", "c|d"], [["1 & 2", "µs × {x} → $"]])
    assert "c\\|d" in table.markdown()
    latex = table.latex()
    assert r"50 \% of fused\_row" in latex
    assert r"1 \& 2 & $\mu$s $\times$ \{x\} $\to$ \$ \\" in latex
