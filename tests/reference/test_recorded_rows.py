"""What is committed of an H200 names no machine, and is what its models say."""

from __future__ import annotations

import re

import pytest

from experiments.data.records import Count, Counters, read_records
from tests.conftest import ROOT

REFERENCE = ROOT / "outputs" / "reference"
PATH = re.compile(r"(?<![\w.])(/[\w.+-]+){2,}|\b(root|home)\b|[A-Z]:\\\\|~/")


def test_no_record_names_a_folder_of_the_machine_it_was_made_on() -> None:
    records = sorted(p for p in REFERENCE.rglob("*") if p.suffix in {".json", ".jsonl"})
    assert len(records) > 10
    found = {str(p): m[0] for p in records if (m := PATH.search(p.read_text(encoding="utf-8")))}
    assert found == {}


def test_the_card_read_from_dram_what_the_model_says() -> None:
    passes = {("naive", 131072): 5, ("three_pass", 131072): 3, ("online", 131072): 2,
              ("fused_row", 16384): 1}  # fmt: skip
    seen = {
        (one.kernel, one.cols): one.dram_read_bytes / (4096 * one.cols * 4)
        for one in read_records(REFERENCE / "h200" / "counters.jsonl", Counters)
        if (one.rows, one.dtype) == (4096, "float32") and (one.kernel, one.cols) in passes
    }
    assert seen == pytest.approx(passes, rel=0.01)


def test_the_code_requests_what_the_model_says_but_for_the_indices_that_max_writes() -> None:
    counts = list(read_records(REFERENCE / "counts" / "counts.jsonl", Count))
    own = {"three_pass", "fused", "fused_row", "hybrid", "online", "copy", "copy_triton"}
    assert own < {count.kernel for count in counts}
    for count in counts:
        if count.kernel in own:
            assert count.tensors
            assert count.difference is None
        elif count.kernel == "naive":
            assert "max.indices" in (count.difference or "")
