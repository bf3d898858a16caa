"""Rows that failed, lack a card, come of two cards, or carry names nobody foresaw."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from analysis.figures.draw import LineFigure as Figure
from analysis.figures.specs import A_FIG2, C_FIG3, D_FIG1, E_FIG1, SPEEDUP_TORCH
from analysis.gallery import FIGURES
from analysis.roofline import SHARE
from experiments.data.rows import Row
from tests.analysis.drawing import NARROW, VOCABULARY, draw, lines, plates, rendered, words
from tests.analysis.plausible import PAPER, interpreted, paper, row

pytestmark = pytest.mark.usefixtures("small_pictures")


def test_the_line_breaks_where_a_point_was_never_recorded_or_was_wrong(tmp_path: Path) -> None:
    rows = [row("torch", n) for n in NARROW]
    rows += [row("fused", n) for n in NARROW if n != 1024 and n != 4096]
    rows += [row("fused", 4096, status="incorrect", time_us=1.0)]
    sheet = draw(tmp_path, D_FIG1, rows)
    fused = lines(sheet)["fused"]
    assert fused[np.isnan(fused[:, 1]), 0].tolist() == [1024, 4096]
    assert sheet.axes[0].get_ylim()[1] < 2 * 4800  # the wrong one, at 134 TB/s, left no trace
    assert not [mark for mark in sheet.kept if mark.row["status"] != "ok"]


def test_the_interval_of_a_wrong_answer_is_not_drawn_either(tmp_path: Path) -> None:
    rows = [row("torch", n, rows=64, time_us=50.0) for n in NARROW[1:]]
    rows += [row("torch", 256, rows=64, status="incorrect", time_us=1.0)]
    low, _ = draw(tmp_path, A_FIG2, rows).axes[0].get_ylim()
    assert low > 1


def test_interpreter_rows_never_enter_a_speed_figure(tmp_path: Path) -> None:
    rows = [row(k, n, gpu="A CPU", device="cpu", timer="host") for k in ("torch", "naive", "mine")
            for n in NARROW]  # fmt: skip
    rows += [interpreted("online", n) for n in NARROW]
    rows += [row("fused", n, gpu="A CPU", device="cpu", backend="interpreter") for n in NARROW]
    for figure in FIGURES:
        for plate in plates(tmp_path, figure, rows):
            sheet = rendered(plate)
            drawn = {mark.row["kernel"] for mark in sheet.kept}
            assert "mine" in drawn
            assert not {"online", "fused"} & drawn


def test_each_card_has_a_picture_of_its_own_rows_alone(tmp_path: Path) -> None:
    cards = ("NVIDIA H200", "NVIDIA L4")
    rows = [r.model_copy(update={"gpu": gpu, "key": r.key + gpu}) for gpu in cards for r in paper()]
    for figure in (A_FIG2, D_FIG1, E_FIG1, SPEEDUP_TORCH):
        two = plates(tmp_path, figure, rows)
        assert [plate.gpu for plate in two] == list(cards)
        assert [p.name for p in two] == [f"{figure.id}-nvidia-h200", f"{figure.id}-nvidia-l4"]
        for plate in two:
            assert {mark.row["gpu"] for mark in rendered(plate).marks} == {plate.gpu}


@pytest.mark.parametrize("entry", [*FIGURES, SHARE], ids=lambda entry: str(entry.id))
def test_a_single_size_or_no_time_at_all_is_no_figure(tmp_path: Path, entry: Figure) -> None:
    assert plates(tmp_path, entry, [row(k, 4096) for k in ("torch", "naive", "copy")]) == []
    failed = [row("torch", n, status="crashed", time_us=None) for n in NARROW]
    assert plates(tmp_path, entry, failed) == []


def test_nothing_to_compare_with_is_no_speedup(tmp_path: Path) -> None:
    assert plates(tmp_path, SPEEDUP_TORCH, [row("naive", n) for n in NARROW]) == []
    assert plates(tmp_path, SPEEDUP_TORCH, [row("torch", n) for n in NARROW]) == []
    assert plates(tmp_path, E_FIG1, [row("torch", n) for n in NARROW]) == []
    assert plates(tmp_path, SHARE, [row("torch", n) for n in NARROW]) == []
    assert "torch among them" in SPEEDUP_TORCH.needs


def test_names_that_look_like_markup_are_drawn_as_they_stand(tmp_path: Path) -> None:
    names = ("<script>alert(1)</script>", "$\\nothing{$", "a$x^2$")
    rows = [row(kernel, n) for kernel in (*names, "naive", "torch") for n in NARROW]
    for figure in (D_FIG1, SPEEDUP_TORCH):
        [plate] = plates(tmp_path, figure, rows)
        svg = plate.files(tmp_path)[0].read_text(encoding="utf-8")
        assert "<script" not in svg
        shown = words(rendered(plate))
        assert all(name in shown for name in names)


def test_a_name_too_long_for_its_place_is_cut(tmp_path: Path) -> None:
    rows = [row(k, n) for k in ("a_kernel_with_a_name_that_ends_nowhere", "torch") for n in NARROW]
    assert "a_kernel_with_a_name_that_e…" in words(draw(tmp_path, D_FIG1, rows)).splitlines()


def test_settings_of_one_kernel_are_lines_of_their_own_on_the_vocabulary(tmp_path: Path) -> None:
    blocks = (512, 1024, 4096, 131072)
    rows = [row(k, n, rows=8192, dtype="float16") for k in ("torch", "copy") for n in VOCABULARY]
    rows += [
        hybrid(n, block, 20.0 * n / 512 + i) for n in VOCABULARY for i, block in enumerate(blocks)
    ]
    drawn = draw(tmp_path, C_FIG3, rows)
    named = {f"hybrid block_size={block}" for block in blocks}
    assert named <= set(lines(drawn))
    assert named <= set(words(drawn).splitlines())


def hybrid(cols: int, block: int, time: float) -> Row:
    return row("hybrid", cols, rows=8192, dtype="float16", params={"block_size": block},
               key=f"{cols}-{block}", time_us=time)  # fmt: skip


def test_a_card_without_datasheet_gives_every_figure_that_another_gives(tmp_path: Path) -> None:
    known = [row(k, n) for k in ("naive", "torch", "fused_row", "copy") for n in PAPER]
    unknown = [r.model_copy(update={"gpu": "Some Card"}) for r in known]
    for figure in FIGURES:
        assert len(plates(tmp_path, figure, known)) == len(plates(tmp_path, figure, unknown))
