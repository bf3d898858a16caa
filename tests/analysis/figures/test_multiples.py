"""Panels beside each other: dtypes or kinds of GPU on one axis, never of two protocols; cards."""

from __future__ import annotations

from pathlib import Path

from analysis.figures.multiples import D_FIG1_GPUS, DTYPES_TIME
from analysis.figures.specs import D_FIG1
from analysis.spread import cards_of
from experiments.data.rows import Row
from tests.analysis.drawing import NARROW, draw, frame_of, lines, pages, words
from tests.analysis.plausible import PAPER, row

KERNELS = ("naive", "torch", "online", "copy")
DTYPES = ("float32", "float16", "bfloat16")


def timed(*dtypes: str, **changes: object) -> list[Row]:
    return [row(k, n, dtype=d, **changes) for k in KERNELS for n in PAPER for d in dtypes]


def test_each_dtype_has_a_panel_and_all_share_their_axes(tmp_path: Path) -> None:
    canvas = draw(tmp_path, DTYPES_TIME, timed(*DTYPES))
    assert len(canvas.axes) == 3
    assert len({(ax.get_xlim(), ax.get_ylim()) for ax in canvas.axes}) == 1
    for panel, dtype in enumerate(DTYPES):
        assert dtype in [text.get_text() for text in canvas.axes[panel].texts]
        assert {m.row["dtype"] for m in canvas.marks if m.ax is canvas.axes[panel]} == {dtype}
        assert set(lines(canvas, panel)) == {"naive", "torch", "online", "copy roof"}
    named = [text.get_text() for text in canvas.legends[0].get_texts()]
    assert named == ["naive", "torch", "online", "copy roof"]


def test_a_dtype_without_rows_has_no_panel_and_panels_never_mix_protocols(tmp_path: Path) -> None:
    assert len(draw(tmp_path, DTYPES_TIME, timed("float32", "bfloat16")).axes) == 2
    mixed = timed("float32") + timed("float16", timer="graph") + timed("bfloat16", rows=64)
    assert pages(tmp_path / "mixed", DTYPES_TIME, mixed) == []


def test_kinds_of_gpu_stand_beside_each_other_on_one_axis(tmp_path: Path) -> None:
    kinds = ("NVIDIA H200", "NVIDIA L4")
    rows = [row(k, n, gpu=gpu, time_us=n * 0.1**i) for i, gpu in enumerate(kinds)
            for k in KERNELS for n in NARROW]  # fmt: skip
    canvas = draw(tmp_path, D_FIG1_GPUS, rows)
    assert len(canvas.axes) == 2
    assert canvas.axes[0].get_ylim() == canvas.axes[1].get_ylim()
    [legend] = canvas.legends
    assert [text.get_text() for text in legend.get_texts()] == ["naive", "torch", "online"]
    assert {gpu for gpu in kinds if gpu in words(canvas)} == set(kinds)
    assert len(pages(tmp_path, D_FIG1, rows)) == 2  # and each has a picture of its own


def test_kinds_that_were_not_measured_alike_share_no_axis(tmp_path: Path) -> None:
    rows = [row(k, n, gpu=gpu, timer=timer) for k in ("torch", "copy") for n in NARROW
            for gpu, timer in (("NVIDIA H200", "events"), ("NVIDIA L4", "graph"))]  # fmt: skip
    assert pages(tmp_path, D_FIG1_GPUS, rows) == []


def test_a_point_that_a_card_lacks_is_left_out(tmp_path: Path) -> None:
    rows = [row(kernel, n, card=card) for card in range(3) for kernel in ("torch", "copy", "online")
            for n in NARROW if (card, kernel) != (2, "online")]  # fmt: skip
    [cards] = cards_of(frame_of(tmp_path, rows))
    assert cards.cards == (0, 1, 2)
    assert {point.row["kernel"] for point in cards.points} == {"torch", "copy"}
