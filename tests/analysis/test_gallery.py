"""All pictures in one order, and what another page needs of them."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from analysis.figures.card_to_card import CARD_TO_CARD
from analysis.figures.limits import LIMITS, LIMITS_RATIO
from analysis.figures.multiples import D_FIG1_GPUS
from analysis.figures.style import slug
from analysis.gallery import DRAWN, ENTRIES, missing, pictures
from analysis.load import Inputs, Records, load, load_records
from experiments.data.rows import Row
from tests.analysis.drawing import draw, rendered
from tests.analysis.plausible import PAPER, paper, row, write
from tests.conftest import ROOT

SOURCED = ["a_fig1", "a_fig2", "b_fig1", "c_fig1", "c_fig2", "c_fig3", "d_fig1", "e_fig1"]
OURS = ["speedup_naive", "speedup_torch", "dtypes_time", "dtypes_bandwidth"]


def material(tmp_path: Path, rows: list[Row]) -> Inputs:
    return Inputs(tmp_path, tmp_path, load(write(tmp_path, rows)), Records(), {})


@pytest.fixture(scope="module")
def recorded() -> Inputs:
    rows = ROOT / "outputs" / "reference"
    return Inputs(rows, rows, load(rows), load_records(rows, rows / "counts"), {})


def test_every_figure_of_the_sources_comes_first_in_their_order(recorded: Inputs) -> None:
    found = [picture.id for picture in pictures(recorded)]
    assert list(dict.fromkeys(found))[: len(SOURCED + OURS)] == SOURCED + OURS
    assert missing(pictures(recorded)) == [
        one.needs for one in (LIMITS, LIMITS_RATIO, CARD_TO_CARD, D_FIG1_GPUS)
    ]  # rows of their own
    assert len({picture.name for picture in pictures(recorded)}) == len(found)


def test_every_picture_tells_what_it_shows_and_where_it_comes_from(recorded: Inputs) -> None:
    for picture in pictures(recorded):
        assert picture.caption.endswith(".")
        assert len(picture.plate.small) <= 3
        told = " ".join(picture.plate.small)
        if picture.gpu:
            assert "NVIDIA H200" in told
            assert "commit " in told
        else:
            assert "without a GPU" in told


def test_small_print_and_names_stay_on_the_canvas(recorded: Inputs) -> None:
    for picture in pictures(recorded):
        sheet = rendered(picture.plate)
        box = sheet.bbox
        for text in [*sheet.texts, *(text for ax in sheet.axes for text in ax.texts)]:
            seen = text.get_window_extent()
            assert seen.x0 >= -1, (picture.name, text.get_text())
            assert seen.x1 <= box.width + 1, (picture.name, text.get_text())


def test_every_row_that_is_drawn_can_be_found_where_it_is(tmp_path: Path) -> None:
    sheet = draw(tmp_path, ENTRIES[0], paper())
    own = [r for r in paper() if r.status == "ok" and r.operation == "softmax"]
    shown = {(r.kernel, r.cols) for r in own if r.kernel not in ("three_pass", "hybrid")}
    assert {(m.row["kernel"], m.row["cols"]) for m in sheet.marks} == shown
    for mark in sheet.marks:
        assert (mark.x, mark.y) == pytest.approx((mark.row["cols"], mark.row["time_us"]))
        left, top = mark.place
        assert 0.08 < left < 0.75
        assert 0.15 < top < 0.8
    by_time = sorted(sheet.marks, key=lambda m: m.y)
    assert np.all(np.diff([m.place[1] for m in by_time]) <= 1e-9)  # slower stands higher


def test_a_line_of_rows_is_found_by_its_name_in_the_file(tmp_path: Path) -> None:
    found = material(tmp_path, [row(k, n) for k in ("torch", "a <b>") for n in PAPER])
    [a_fig2, *_] = pictures(found)
    svg = a_fig2.plate.files(tmp_path)[0].read_text(encoding="utf-8")
    assert 'id="rows:torch"' in svg
    assert 'id="rows:a__b_"' in svg


def test_what_cannot_be_drawn_says_what_it_needs(tmp_path: Path) -> None:
    found = material(tmp_path, [row("torch", n) for n in PAPER])
    drawn = {picture.id for picture in pictures(found, DRAWN)}
    lines = missing(pictures(found, DRAWN), DRAWN)
    assert drawn | {line.split(" needs ")[0] for line in lines} == {entry.id for entry in DRAWN}
    assert all("\n" not in line for line in lines)


def test_every_device_has_file_names_of_its_own() -> None:
    names = ["NVIDIA H200", "NVIDIA H100", "加速器", "加速卡", "Ω"]
    assert len({slug(name) for name in names}) == len(names)
    assert all(re.fullmatch(r"[a-z0-9-]+", slug(name)) for name in names)
