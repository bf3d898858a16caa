"""The roofline's files and ceilings, by rows whose answer is known."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from analysis.__main__ import main
from analysis.load import key_of
from analysis.roofline.pictures import ceilings_of
from experiments.data.cards import Card, card_of
from tests.analysis.plausible import paper, write
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
    for text in ("DRAM datasheet 4,800 GB/s", "fp32 67 Tflop/s", "open: by DRAM's"):
        assert text in drawn


def test_ceilings_come_from_the_cards_own_facts_and_l2s_from_what_was_seen() -> None:
    h200_card, fits = card_of("NVIDIA H200"), {"compulsory_bytes": 2**20, "modelled_gbps": 7000.0}
    cold = pd.DataFrame([{"operation": "copy", "cache": "cold", "roof_gbps": 4000.0} | fits])
    warm = cold.assign(cache="warm")
    seen = h200()[0].model_copy(
        update={"l2_to_sm_bytes": 4_000_000, "requested_store_bytes": 2_000_000, "kernel_us": 1.0}
    )
    counted = {key_of(seen.model_dump()): seen}
    l2, *others = ceilings_of(warm, warm, h200_card, counted)
    assert l2 == ("L2 copy", 7000.0, True)
    assert others == [
        ("DRAM datasheet", 4800.0, True), ("DRAM copy", 4000.0, True), ("fp32", 67_000.0, False),
        ("exp unit", pytest.approx(5 * 16 * 132 * 1.98), False),
    ]  # fmt: skip
    assert ceilings_of(cold, cold, h200_card, counted)[0] == ("L2, most seen", 6000.0, True)
    wide = warm.assign(compulsory_bytes=2**40)
    assert ceilings_of(wide, wide, h200_card, {}) == others
    assert ceilings_of(warm, warm, Card("?"), {}) == [("DRAM copy", 4000.0, True)]
