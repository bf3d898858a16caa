from __future__ import annotations

from pathlib import Path

import pytest

from experiments.data.cards import card_of


@pytest.mark.parametrize(
    ("gpu", "peak"),
    [("NVIDIA H200", 4800), ("NVIDIA H100 80GB HBM3", 3350), ("NVIDIA GeForce RTX 4090", 1008)],
)
def test_a_card_is_known_by_its_drivers_name(gpu: str, peak: float) -> None:
    assert card_of(gpu).peak_gbps == peak


def test_l2_is_in_bytes() -> None:
    assert card_of("NVIDIA A100-SXM4-80GB").l2_bytes == 40 * 2**20


def test_an_unknown_card_keeps_its_name_and_has_no_datasheet(tmp_path: Path) -> None:
    for folder in (tmp_path, Path("conf/gpu")):
        card = card_of("Some Other Card", folder)
        assert (card.name, card.peak_gbps, card.l2_bytes) == ("Some Other Card", None, None)
