"""All pictures in one order, the same bytes whenever they are drawn, each with its provenance."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from analysis.figures.card_to_card import CARD_TO_CARD
from analysis.figures.limits import LIMITS, LIMITS_RATIO
from analysis.figures.multiples import D_FIG1_GPUS, DTYPES_TIME
from analysis.figures.specs import E_FIG1
from analysis.gallery import DRAWN, ENTRIES, Entry, Picture, missing, pictures
from analysis.load import Inputs, Records, load, load_records
from tests.analysis.drawing import frame_of, overhang, rendered
from tests.analysis.plausible import PAPER, row
from tests.conftest import ROOT

SOURCED = ["a_fig1", "a_fig2", "b_fig1", "c_fig1", "c_fig2", "c_fig3", "d_fig1", "e_fig1"]
OURS = ["speedup_naive", "speedup_torch", "dtypes_time", "dtypes_bandwidth"]
OF_OTHER_ROWS = (LIMITS, LIMITS_RATIO, CARD_TO_CARD, D_FIG1_GPUS)
MIXED = (E_FIG1, DTYPES_TIME, LIMITS, CARD_TO_CARD)


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> pd.DataFrame:
    """Rows on two cards of one kind and one of another, for every kind of figure."""
    kernels = ("naive", "torch", "auto", "fused_row", "copy")
    rows = [row(k, n, dtype=d) for k in kernels for n in PAPER for d in ("float32", "float16")]
    rows += [row(k, 32000, rows=m, dtype="float16") for k in kernels for m in (1, 4, 16, 64)]
    rows += [one.model_copy(update={"card": 1}) for one in rows]
    other = {"gpu": "NVIDIA A100-SXM4-80GB"}
    rows += [one.model_copy(update=other | {"key": f"{one.key}-"}) for one in rows[:60]]
    return frame_of(tmp_path_factory.mktemp("mixed"), rows)


@pytest.mark.usefixtures("small_pictures")
@pytest.mark.parametrize("figure", MIXED, ids=lambda figure: str(figure.id))
def test_it_is_the_same_bytes_when_drawn_twice(
    figure: Entry, mixed: pd.DataFrame, tmp_path: Path
) -> None:
    shuffled = mixed.sample(frac=1, random_state=1)
    first, second = (figure.pages(Records(), frame)[-1] for frame in (mixed, shuffled))
    for one, two in zip(first.files(tmp_path / "1"), second.files(tmp_path / "2"), strict=True):
        assert one.read_bytes() == two.read_bytes()
        for fact in (b"NVIDIA H200", b"events, cold", b"commit 0123456789ab", b"rows "):
            assert fact in one.read_bytes()
    (tmp_path / f"{first.name}.svg").symlink_to(one)
    with pytest.raises(OSError, match="is a symbolic link"):
        first.files(tmp_path)


@pytest.fixture(scope="module")
def recorded() -> list[Picture]:
    rows = ROOT / "outputs" / "reference"
    return list(pictures(Inputs(rows, rows, load(rows), load_records(rows, rows / "counts"), {})))


def test_every_figure_of_the_sources_comes_first_in_their_order(recorded: list[Picture]) -> None:
    found = [picture.id for picture in recorded]
    assert list(dict.fromkeys(found))[: len(SOURCED + OURS)] == SOURCED + OURS
    assert missing(recorded) == [entry.needs for entry in OF_OTHER_ROWS]
    assert len({picture.page.name for picture in recorded}) == len(found)


def test_every_recorded_picture_fits_its_canvas(recorded: list[Picture]) -> None:
    for picture in {one.id: one for one in recorded}.values():  # the last card or dtype of each
        assert len(picture.page.small) <= 3
        assert overhang(rendered(picture.page)) == [], picture.page.name


def test_what_cannot_be_drawn_says_what_it_needs_in_one_line(tmp_path: Path) -> None:
    frame = frame_of(tmp_path, [row("torch", n) for n in PAPER])
    drawn = list(pictures(Inputs(tmp_path, tmp_path, frame, Records(), {}), DRAWN))
    needs = [line.split(" needs ")[0] for line in missing(drawn, DRAWN)]
    assert {picture.id for picture in drawn} | set(needs) == {entry.id for entry in DRAWN}
    for entry in ENTRIES:
        assert entry.caption.endswith(".")
        assert entry.needs.startswith(f"{entry.id} needs ")
        assert "\n" not in entry.needs
