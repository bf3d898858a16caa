"""Verdicts: is what was counted or measured what the model says, and if not, why."""

from __future__ import annotations

import pytest

from analysis.traffic.levels import counted_verdict, measured_verdict
from tests.analysis.records import count, counters

FAR = (4096, 131072)


def test_a_count_is_exact_or_differs_in_the_models_words() -> None:
    fault = count("online", model_reads=5 * 8192, difference="reads 2MN where the model says MN")
    assert counted_verdict("reads", fault) == "reads 2MN where the model says MN"
    assert counted_verdict("writes", fault) == "exact"
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
    verdicts = [measured_verdict("DRAM", *kind, seen, "triton") for kind in (
        ("reads", seen.dram_read_bytes), ("writes", seen.dram_write_bytes))]  # fmt: skip
    assert verdicts == ["spills", "dirty lines unwritten"]
