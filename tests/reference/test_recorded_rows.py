"""What the committed rows, counters and counts of an H200 must go on saying."""

import json
import re
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from experiments.cost import load
from experiments.data.metrics import derive
from experiments.data.packed import recording
from experiments.data.records import Count, Counters, read_records
from experiments.data.rows import Row
from tests.conftest import ROOT

REFERENCE = ROOT / "outputs" / "reference"
H200 = REFERENCE / "h200"
PATH = re.compile(r"(?<![\w.])(/[\w.+-]+){2,}|\b(root|home)\b|[A-Z]:\\\\|~/")


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    return load(H200)


@pytest.fixture(scope="module")
def at(rows: list[Row]) -> dict[tuple[str, int], dict[str, Any]]:
    """Kernel and width to the derived row, at 4096 rows of float32."""
    return {
        (row["kernel"], row["cols"]): row
        for row in derive(rows)
        if (row["rows"], row["dtype"]) == (4096, "float32")
    }


def test_every_point_of_the_sweep_is_measured_or_out_of_reach(rows: list[Row]) -> None:
    assert len(rows) >= 1500
    assert {row.status for row in rows} <= {"ok", "unsupported"}
    assert {row.gpu for row in rows} == {"NVIDIA H200"}


def test_naive_takes_four_times_as_long_as_fused(at: dict[tuple[str, int], Any]) -> None:
    assert at["naive", 16384]["time_us"] >= 4 * at["fused", 16384]["time_us"]


def test_fewer_passes_are_faster(at: dict[tuple[str, int], Any]) -> None:
    times = [at[kernel, 16384]["time_us"] for kernel in ("fused", "online", "three_pass")]
    assert times == sorted(times)
    assert len(set(times)) == 3


def test_a_row_held_on_chip_comes_near_the_copy_roof(at: dict[tuple[str, int], Any]) -> None:
    assert at["fused_row", 16384]["fraction_of_roof"] >= 0.85


def test_a_row_wider_than_shared_memory_is_out_of_reach_of_fused(
    at: dict[tuple[str, int], Any],
) -> None:
    row = at["fused", 65536]
    assert row["status"] == "unsupported"
    assert "shared memory" in row["reason"]


def test_most_of_the_wall_time_is_sampling_or_compiling(rows: list[Row]) -> None:
    notes = [
        json.loads(line) for line in (recording(H200) / "sessions.jsonl").read_text().splitlines()
    ]
    wall_s = sum(note["elapsed_s"] for note in notes)
    assert wall_s <= 600
    assert sum((r.sampling_s or 0) + (r.compile_s or 0) for r in rows) >= 0.7 * wall_s
    overhead_s = [
        r.wall_s - (r.sampling_s or 0) - (r.compile_s or 0)
        for r in rows
        if r.time_us is not None and r.wall_s is not None
    ]
    assert median(overhead_s) <= 0.050


def records() -> list[Path]:
    return sorted(p for p in REFERENCE.rglob("*") if p.suffix in {".json", ".jsonl"})


def test_no_record_names_a_folder_of_the_machine_it_was_made_on() -> None:
    assert records()
    found = {str(p): m[0] for p in records() if (m := PATH.search(p.read_text(encoding="utf-8")))}
    assert found == {}


@pytest.mark.parametrize(
    ("kernel", "cols", "passes"),
    [
        ("naive", 131072, 5),
        ("three_pass", 131072, 3),
        ("online", 131072, 2),
        ("fused_row", 16384, 1),
    ],
)
def test_the_card_read_from_dram_what_the_model_says(kernel: str, cols: int, passes: int) -> None:
    seen = [
        record.dram_read_bytes
        for record in read_records(H200 / "counters.jsonl", Counters)
        if (record.kernel, record.rows, record.cols, record.dtype)
        == (kernel, 4096, cols, "float32")
    ]
    assert seen == [pytest.approx(passes * 4096 * cols * 4, rel=0.01)]


def counts(kernel: str) -> list[Count]:
    found = read_records(REFERENCE / "counts" / "counts.jsonl", Count)
    return [count for count in found if count.kernel == kernel]


@pytest.mark.parametrize(
    "kernel", ["three_pass", "fused", "fused_row", "hybrid", "online", "copy", "copy_triton"]
)
def test_the_code_requests_what_the_model_says(kernel: str) -> None:
    assert counts(kernel)
    assert all(c.tensors and c.difference is None for c in counts(kernel))


def test_naive_differs_from_its_model_by_the_indices_that_max_writes() -> None:
    assert counts("naive")
    assert all("max.indices" in (c.difference or "") for c in counts("naive"))
