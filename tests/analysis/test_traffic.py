"""What records show: the traffic table, and the pictures of levels, DRAM reads and traced rows."""

from __future__ import annotations

from pathlib import Path

import pytest

from analysis.__main__ import main
from analysis.load import Records
from analysis.tables.traffic import size_text, wide_table
from analysis.traffic.levels import levels_of
from analysis.traffic.pictures import edge, series, shapes_shown
from experiments.data.cards import Card, card_of
from tests.analysis.plausible import row, write
from tests.analysis.records import count, counters, h200, record_files, trace

FIGURES = ("traffic", "dram_reads", "a_fig1", "b_fig1")


def test_a_variant_that_no_counter_saw_stands_at_its_largest_counted_shape() -> None:
    counts = (count("fused", 5, 8192), count("fused", 5, 1024), count("online"))
    table = wide_table(levels_of(Records(counts=counts, counters=tuple(h200())), {}))
    lines = [line[:4] for line in table.lines if line[3] == "any"]
    assert lines == [["fused", "5×8192", "float32", "any"]]


@pytest.mark.parametrize(("size", "text"), [
    (999, "999 B"), (32_000, "32 kB"), (536_870_912, "537 MB"), (5 * 10**12, "5,000 GB"),
])  # fmt: skip
def test_bytes_have_a_unit_of_a_thousand(size: int, text: str) -> None:
    assert size_text(size) == text


def test_three_shapes_are_shown_of_those_that_most_variants_share() -> None:
    shapes = [(4096, 2**k) for k in range(10, 15)]
    seen = [counters(k, *s, 1.0, 1.0) for s in shapes for k in ("online", "torch", "naive")]
    seen += [counters("online", 4096, 2**20, 1.0, 1.0)]  # alone there
    found = levels_of(Records(counters=tuple(seen)), {})
    assert shapes_shown(found) == [(4096, 2**k, "float32") for k in (14, 12, 10)]


def test_dram_reads_are_lines_at_the_size_that_most_points_share() -> None:
    seen = [counters("online", 4096, n, 2.0, 1.0) for n in (4096, 1024, 2048)]
    seen += [counters("online", m, 1024, 2.0, 1.0) for m in (64, 128)]
    seen += [counters("torch", 4096, 1024, 1.0, 1.0)]  # one point is no line
    assert {k: [c.cols for c in line] for k, line in series(seen, "cols").items()} == {
        "online": [1024, 2048, 4096]
    }
    assert [c.rows for c in series(seen, "rows")["online"]] == [64, 128, 4096]
    assert series(seen[-1:], "cols") == {}


def test_the_edge_is_where_rows_in_flight_fill_l2() -> None:
    card, line = card_of("NVIDIA H200"), [counters("online", 4096, 4096, 2.0, 1.0)]
    assert card.l2_bytes is not None
    assert edge("cols", line, 2112, card) == card.l2_bytes / (2112 * 4)
    rows = card.l2_bytes / (4096 * 4)
    assert edge("rows", line, 10_000, card) == rows
    assert edge("rows", line, int(rows) - 1, card) is None
    assert edge("cols", line, 2112, Card("?")) is None


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
