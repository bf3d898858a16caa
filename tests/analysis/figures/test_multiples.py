"""Small multiples: dtypes on one axis, kinds of GPU on one axis, never of two protocols."""

from __future__ import annotations

from pathlib import Path

import pytest

from analysis.figures.multiples import D_FIG1_GPUS, DTYPES_TIME
from analysis.figures.specs import D_FIG1
from experiments.data.rows import Row
from tests.analysis.drawing import NARROW, draw, lines, pages, words
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


def test_a_dtype_that_was_not_timed_has_no_panel_and_one_alone_no_figure(tmp_path: Path) -> None:
    assert len(draw(tmp_path, DTYPES_TIME, timed("float32", "bfloat16")).axes) == 2
    assert pages(tmp_path / "1", DTYPES_TIME, timed("float32")) == []


def test_panels_never_mix_protocols_or_rows(tmp_path: Path) -> None:
    rows = timed("float32") + timed("float16", timer="graph") + timed("bfloat16", rows=64)
    assert pages(tmp_path, DTYPES_TIME, rows) == []


def test_kinds_of_gpu_stand_beside_each_other_on_one_axis(tmp_path: Path) -> None:
    kinds = ("NVIDIA H200", "NVIDIA L4")
    rows = [row(k, n, gpu=gpu, time_us=(row(k, n).time_us or 0) * (1 + 9 * i))
            for i, gpu in enumerate(kinds) for k in KERNELS for n in NARROW]  # fmt: skip
    canvas = draw(tmp_path, D_FIG1_GPUS, rows)
    assert len(canvas.axes) == 2
    assert canvas.axes[0].get_ylim() == canvas.axes[1].get_ylim()
    [legend] = canvas.legends
    assert [text.get_text() for text in legend.get_texts()] == ["naive", "torch", "online"]
    left, right = (lines(canvas, panel) for panel in range(2))
    assert left.keys() >= {"torch", "online", "copy roof"}
    assert left["torch"][:, 1] == pytest.approx(10 * right["torch"][:, 1])
    assert {gpu for gpu in kinds if gpu in words(canvas)} == set(kinds)
    assert len(pages(tmp_path, D_FIG1, rows)) == 2  # and each has a picture of its own


def test_kinds_that_were_not_measured_alike_share_no_axis(tmp_path: Path) -> None:
    rows = [row(k, n, gpu=gpu, timer=timer) for k in ("torch", "copy") for n in NARROW
            for gpu, timer in (("NVIDIA H200", "events"), ("NVIDIA L4", "graph"))]  # fmt: skip
    assert pages(tmp_path, D_FIG1_GPUS, rows) == []
