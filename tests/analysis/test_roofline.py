from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from analysis.__main__ import main
from analysis.check import checked
from analysis.load import Records, key_of, load
from analysis.roofline import exponential_gflops, fp32_gflops, l2_ceiling
from experiments.data.cards import Card, card_of
from tests.analysis.evidence import count, h200, trace, write_evidence
from tests.analysis.plausible import paper, row, write

pytestmark = pytest.mark.usefixtures("small_pictures")
RECORDED = Path(__file__).parents[2] / "outputs" / "reference" / "h200"
WIDTHS = (256, 1024, 16384, 131072)


@pytest.fixture(scope="module")
def recorded() -> pd.DataFrame:
    return load(RECORDED)


def test_the_check_runs_on_the_recorded_rows(recorded: pd.DataFrame) -> None:
    points = checked(recorded, Records())
    assert len(points) == (recorded["status"] == "ok").sum()
    at = points[(points["rows"] == 4096) & (points["dtype"] == "float32")]
    told = at.set_index(["kernel", "cols"])["verdict"]
    for kernel in ("three_pass", "online", "fused_row"):
        assert told[kernel, 16384] == "traffic", kernel
    assert told["three_pass", 1024] == told["hybrid", 16384] == "re-reads served by L2"
    assert told["fused_row", 65536] == "spills"
    assert told["fused", 16384] == "occupancy"


def test_the_verdict_does_not_depend_on_the_order_of_rows(recorded: pd.DataFrame) -> None:
    some = recorded[recorded["dtype"] == "float16"]
    one, other = (checked(f, Records()) for f in (some, some.sample(frac=1, random_state=3)))
    assert one["key"].tolist() == other["key"].tolist()
    assert one["verdict"].tolist() == other["verdict"].tolist()


def test_roofline_writes_figures_and_the_check_and_sums_it_up(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "rows", paper(WIDTHS))
    write_evidence(tmp_path / "rows", counters=h200())
    for out in ("one", "two"):
        assert main(["roofline", "--rows", "rows", "--out", out]) == 0
    first = sorted((tmp_path / "one").iterdir())
    assert {p.suffix for p in first} == {".svg", ".png", ".md", ".csv", ".json"}
    assert len(first) == 9
    for path in first:
        assert path.read_bytes() == (tmp_path / "two" / path.name).read_bytes(), path.name
    told = capsys.readouterr().out
    assert "Verdicts: points a variant" in told
    assert told.count("\n") < 70
    assert "| naive | 4096×256 | float32 |" in (tmp_path / "one" / "roofline.md").read_text()


def test_rows_without_a_roof_are_refused_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path, [row("torch", n) for n in WIDTHS])
    assert main(["roofline", "--rows", "."]) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ") and error.count("\n") == 1 and "copy" in error  # noqa: PT018


def test_tables_say_what_they_lack_and_price_every_card(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path, paper())
    assert main(["tables", "--rows", "."]) == 0
    assert "skipped: traffic needs" in capsys.readouterr().err
    priced = (tmp_path / "tables" / "cards.csv").read_text().splitlines()
    assert "NVIDIA H200, 4,800 GB/s" in priced[0]
    naive = next(line for line in priced if line.startswith("naive,4096×16384"))
    assert naive.split('"')[0].startswith("naive,4096×16384,float32,447.4")
    write_evidence(tmp_path, counts=[count("online")], counters=h200())
    assert main(["tables", "--rows", "."]) == 0
    for suffix in ("md", "csv", "tex"):
        assert (tmp_path / "tables" / f"traffic.{suffix}").read_text()


def test_figures_of_records_are_drawn_where_they_are_and_skipped_where_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path, [row("torch", n) for n in WIDTHS])
    assert main(["figures", "--rows", ".", "--out", "bare"]) == 0
    told = capsys.readouterr().err
    for figure in ("traffic", "dram_reads", "a_fig1", "b_fig1"):
        assert f"skipped: {figure} needs" in told
    write_evidence(
        tmp_path, counts=[count("naive"), count("online")], counters=h200(),
        traces=[trace(kernel) for kernel in ("naive", "fused", "online")],
    )  # fmt: skip
    for out in ("one", "two"):
        assert main(["figures", "--rows", ".", "--out", out]) == 0
    told = capsys.readouterr().err
    assert not any(f"skipped: {figure} " in told for figure in ("traffic", "dram_reads", "a_fig1"))
    drawn = {p.name for p in (tmp_path / "one").glob("*.svg")}
    assert {"traffic-nvidia-h200.svg", "dram_reads-nvidia-h200.svg", "a_fig1.svg"} < drawn
    for path in (tmp_path / "one").iterdir():
        assert path.read_bytes() == (tmp_path / "two" / path.name).read_bytes(), path.name
    assert "naive: 8 trips of a whole row, 4 of one element" in _words(tmp_path / "one")


def test_records_counted_for_every_machine_are_found_without_their_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "mine", paper(WIDTHS))
    write_evidence(tmp_path / "outputs" / "reference" / "counts", traces=[trace("online")])
    assert main(["figures", "--rows", "mine"]) == 0
    assert (tmp_path / "mine" / "figures" / "b_fig1.svg").exists()


def test_ceilings_come_from_the_cards_own_facts() -> None:
    h200 = card_of("NVIDIA H200")
    assert fp32_gflops(h200) == 67_000
    assert exponential_gflops(h200) == pytest.approx(5 * 16 * 132 * 1.98)
    assert fp32_gflops(Card("?")) is exponential_gflops(Card("?")) is None


def test_l2s_ceiling_is_a_warm_copys_else_the_most_that_counters_saw() -> None:
    card = card_of("NVIDIA H200")
    copy = {"operation": "copy", "compulsory_bytes": 2**20, "modelled_gbps": 7000.0}
    cold, warm = (pd.DataFrame([copy | {"cache": cache}]) for cache in ("cold", "warm"))
    seen = h200()[0].model_copy(
        update={"l2_to_sm_bytes": 4_000_000, "requested_store_bytes": 2_000_000, "kernel_us": 1.0}
    )
    measured = {key_of(seen.model_dump()): seen}
    assert l2_ceiling(warm, card, measured) == ("L2 copy", 7000.0)
    assert l2_ceiling(cold, card, measured) == ("L2, most seen", 6000.0)
    assert l2_ceiling(cold, card, {}) is None


def _words(folder: Path) -> str:
    """matplotlib writes the text of an SVG as a comment beside its outlines."""
    return (folder / "a_fig1.svg").read_text()
