"""Cards of one kind against each other, and kinds of GPU beside each other."""

from __future__ import annotations

from pathlib import Path

import pytest

from analysis.figures.card_to_card import CARD_TO_CARD
from analysis.figures.multiples import D_FIG1_GPUS
from analysis.figures.specs import D_FIG1
from analysis.spread.points import cards_of
from experiments.data.rows import Row
from tests.analysis.drawing import NARROW, draw, frame_of, lines, plates, words
from tests.analysis.plausible import PASSES, row

SLOWER = {0: 1.0, 1: 1.0, 2: 1.0, 3: 1.04}  # card 3 takes 4 % more
SHORT = 12.0  # µs, a point that launches dominate


def on_cards(**changes: object) -> list[Row]:
    """Three variants at three widths on four cards, and a short point that no card slows."""
    rows = []
    for card, factor in SLOWER.items():
        for kernel in ("torch", "online", "copy"):
            for n in NARROW[3:]:
                time = row(kernel, n).time_us
                assert time is not None
                rows.append(row(kernel, n, time_us=time * factor, card=card, **changes))
        rows.append(row("torch", 256, rows=64, time_us=SHORT, card=card, **changes))
    return rows


def test_cards_of_two_sweeps_or_kinds_are_not_mixed(tmp_path: Path) -> None:
    one = [r for r in on_cards() if r.card == 0]
    other = [r for r in on_cards(sweep="elsewhere") if r.card == 1]
    kind = [r for r in on_cards(gpu="NVIDIA L4") if r.card == 2]
    assert cards_of(frame_of(tmp_path, [*one, *other, *kind])) == []


def test_a_point_that_a_card_lacks_is_left_out(tmp_path: Path) -> None:
    rows = [r for r in on_cards() if not (r.card == 2 and r.kernel == "online")]
    [cards] = cards_of(frame_of(tmp_path, rows))
    assert cards.cards == (0, 1, 2, 3)
    assert {point.row["kernel"] for point in cards.points} == {"torch", "copy"}


@pytest.mark.usefixtures("small_pictures")
def test_the_strips_show_every_card_and_its_median(tmp_path: Path) -> None:
    sheet = draw(tmp_path, CARD_TO_CARD, on_cards())
    [ax] = sheet.axes
    assert [label.get_text() for label in ax.get_yticklabels()] == [f"card {c}" for c in range(4)]
    mean = 1.04**0.25
    assert f"+{100 * (1.04 / mean - 1):.2f} %" in words(sheet)
    assert f"−{100 * (1 - 1 / mean):.2f} %" in words(sheet)
    assert {mark.row["card"] for mark in sheet.marks} == set(SLOWER)


@pytest.mark.usefixtures("small_pictures")
def test_kinds_of_gpu_stand_beside_each_other_on_one_axis(tmp_path: Path) -> None:
    kinds = ("NVIDIA H200", "NVIDIA L4")
    rows = [row(k, n, gpu=gpu, time_us=(row(k, n).time_us or 0) * (1 + 9 * i))
            for i, gpu in enumerate(kinds) for k in PASSES for n in NARROW]  # fmt: skip
    sheet = draw(tmp_path, D_FIG1_GPUS, rows)
    assert len(sheet.axes) == 2
    assert sheet.axes[0].get_ylim() == sheet.axes[1].get_ylim()
    assert len(sheet.legends) == 1
    left, right = (lines(sheet, panel) for panel in range(2))
    assert left.keys() >= {"torch", "online", "copy roof"}
    assert left["torch"][:, 1] == pytest.approx(10 * right["torch"][:, 1])
    colors = [{str(one.get_label()): one.get_color() for one in ax.get_lines()}["torch"]
              for ax in sheet.axes]  # fmt: skip
    assert colors[0] == colors[1]
    assert {gpu for gpu in kinds if gpu in words(sheet)} == set(kinds)
    assert len(plates(tmp_path, D_FIG1, rows)) == 2  # and each has a picture of its own


def test_kinds_that_were_not_measured_alike_share_no_axis(tmp_path: Path) -> None:
    rows = [row(k, n, gpu=gpu, timer=timer) for k in ("torch", "copy") for n in NARROW
            for gpu, timer in (("NVIDIA H200", "events"), ("NVIDIA L4", "graph"))]  # fmt: skip
    assert plates(tmp_path, D_FIG1_GPUS, rows) == []
