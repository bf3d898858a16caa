"""The roofline's files and ceilings, by rows whose answer is known."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from analysis.__main__ import main
from analysis.load import key_of
from analysis.roofline.pictures import exponential_gflops, fp32_gflops, l2_ceiling
from experiments.data.cards import Card, card_of
from tests.analysis.plausible import paper, row, write
from tests.analysis.records import h200, record_files

WIDTHS = (256, 1024, 16384, 131072)


@pytest.mark.usefixtures("small_pictures")
def test_roofline_writes_the_same_files_whatever_the_order_of_rows_and_sums_the_check_up(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "rows", paper(WIDTHS))
    record_files(tmp_path / "rows", counters=h200())
    assert main(["roofline", "--rows", "rows", "--out", "one"]) == 0
    write(tmp_path / "rows", paper(WIDTHS)[::-1])
    assert main(["roofline", "--rows", "rows", "--out", "two"]) == 0
    first = sorted((tmp_path / "one").iterdir())
    assert [path.name for path in first if path.suffix != ".png"] == [
        "roofline.csv", "roofline.manifest.json", "roofline.md",
        *(f"roofline_{kind}-nvidia-h200{end}.svg" for kind, end in (
            ("intensity", "-events-cold"), ("predicted", "-events-cold"), ("share", ""))),
    ]  # fmt: skip
    for path in first:
        same = path.read_bytes() == (tmp_path / "two" / path.name).read_bytes()
        assert same == (path.suffix != ".json"), path.name  # the manifest has the rows' digest
    printed = capsys.readouterr().out
    assert "Verdicts: points per variant" in printed
    assert "| naive | 4096×256 | float32 |" in (tmp_path / "one" / "roofline.md").read_text()
    # matplotlib writes the text of an SVG as a comment beside its outlines
    drawn = (tmp_path / "one" / "roofline_intensity-nvidia-h200-events-cold.svg").read_text()
    for text in ("DRAM datasheet 4,800 GB/s", "fp32 67 Tflop/s", "open: by DRAM bytes"):
        assert text in drawn


def test_rows_without_a_roof_are_refused_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path, [row("torch", n) for n in WIDTHS])
    assert main(["roofline", "--rows", "."]) == 2
    (error,) = capsys.readouterr().err.splitlines()
    assert error.startswith("error: ")
    assert "copy" in error


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
    assert l2_ceiling(warm.assign(compulsory_bytes=2**40), card, {}) is None
    assert l2_ceiling(cold, card, measured) == ("L2, most seen", 6000.0)
    assert l2_ceiling(cold, card, {}) is None
