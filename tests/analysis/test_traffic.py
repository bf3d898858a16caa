"""What records show: the traffic table, and the pictures of levels, DRAM reads and traced rows."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from analysis.__main__ import main
from analysis.load import Records
from analysis.tables.traffic import size_text, wide_table
from analysis.traffic.levels import counted_verdict, levels_of, measured_verdict
from analysis.traffic.pictures import edge
from experiments.data.cards import Card, card_of
from experiments.data.records import TensorCount
from tests.analysis.plausible import row, write
from tests.analysis.records import count, counters, h200, record_files, trace

FAR = (4096, 131072)
FIGURES = ("traffic", "dram_reads", "a_fig1", "b_fig1")


def test_a_variant_that_no_counter_saw_stands_at_its_largest_counted_shape() -> None:
    counts = (count("fused", 5, 8192), count("fused", 5, 1024), count("online"))
    table = wide_table(levels_of(Records(counts=counts, counters=tuple(h200())), {}))
    lines = [line[:4] for line in table.lines if line[3] == "any"]
    assert lines == [["fused", "5×8192", "float32", "any"]]


def test_a_count_is_exact_or_differs_in_the_models_words() -> None:
    fault = count("online", model_reads=5 * 8192, difference="reads 2MN where the model says MN")
    assert counted_verdict("reads", fault) == "reads 2MN where the model says MN"
    assert counted_verdict("writes", fault) == "exact"
    assert counted_verdict("writes", count("naive")) == "nominal, int64 indices"
    assert counted_verdict("reads", count("naive")) == "nominal"
    further = {"name": "loss", "dtype": "float32", "loads": 0, "stores": 5, "load_bytes": 0,
               "store_bytes": 20}  # fmt: skip
    online = count("online")
    kept = online.model_copy(
        update={
            "tensors": [*online.tensors, TensorCount.model_validate(further)],
            "model_read_bytes": 2 * 5 * 8192 * 4,
            "model_write_bytes": 5 * 8192 * 4 + 20,
        }
    )
    assert counted_verdict("writes", kept) == "exact"
    of_writes = [one for one in levels_of(Records(counts=(kept,)), {}) if one.kind == "writes"]
    assert [one.size for one in of_writes] == [5 * 8192 * 4 + 20] * 2


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


def test_bytes_have_a_unit_of_a_thousand() -> None:
    texts = [size_text(size) for size in (999, 32_000, 536_870_912, 5 * 10**12)]
    assert texts == ["999 B", "32 kB", "537 MB", "5,000 GB"]


def test_the_edge_is_where_rows_in_flight_fill_l2() -> None:
    card, line = card_of("NVIDIA H200"), [counters("online", 4096, 4096, 2.0, 1.0)]
    assert card.l2_bytes is not None
    assert edge("cols", line, 2112, card) == card.l2_bytes / (2112 * 4)
    rows = card.l2_bytes / (4096 * 4)
    assert edge("rows", line, 10_000, card) == rows
    assert math.isnan(edge("rows", line, int(rows) - 1, card))
    assert math.isnan(edge("cols", line, 2112, Card("?")))


@pytest.mark.usefixtures("small_pictures")
def test_pictures_of_records_are_drawn_where_they_are_and_skipped_where_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "rows", [row("torch", n) for n in (256, 1024)])
    command = ["figures", "--rows", "rows", "--only", ",".join(FIGURES)]
    assert main(command) == 2
    error = capsys.readouterr().err
    assert all(f"{figure} needs" in error for figure in FIGURES)
    record_files(
        tmp_path / "rows", counts=[count("naive"), count("online")], counters=h200(),
        traces=[trace(kernel) for kernel in ("naive", "fused")],
    )  # fmt: skip
    assert main(["figures", "--rows", "rows", "--out", "all"]) == 0
    error = capsys.readouterr().err
    assert error.startswith("skipped: ")
    assert error.endswith("; --only NAME says what one needs\n")
    assert error.count("\n") == 1
    assert main([*command, "--out", "one"]) == 0
    assert "skipped: b_fig1 needs" in capsys.readouterr().err
    drawn = {path.stem for path in (tmp_path / "one").glob("*.svg")}
    assert drawn == {"traffic-nvidia-h200", "dram_reads-nvidia-h200", "a_fig1"}
    a_fig1 = (tmp_path / "one" / "a_fig1.svg").read_text()
    assert "naive: 8 trips of a whole row, 4 of one element" in a_fig1
    # a trace that was counted for every machine is found beside rows that have none
    record_files(tmp_path / "outputs" / "reference" / "counts", traces=[trace("online")])
    (tmp_path / "rows" / "traces.jsonl").unlink()
    assert main([*command, "--out", "two"]) == 0
    assert (tmp_path / "two" / "b_fig1.svg").exists()
