from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from analysis.figures.multiples import DTYPES_BANDWIDTH, DTYPES_TIME
from analysis.figures.page import Figure
from tests.analysis.drawing import draw, lines, plates, words
from tests.analysis.plausible import PAPER, row

KERNELS = ("naive", "torch", "online", "copy")
DTYPES = ("float32", "float16", "bfloat16")


@pytest.mark.parametrize("figure", [DTYPES_TIME, DTYPES_BANDWIDTH], ids=lambda f: str(f.id))
def test_each_dtype_has_a_panel_and_all_share_their_axes(tmp_path: Path, figure: Figure) -> None:
    rows = [row(k, n, dtype=d) for k in KERNELS for n in PAPER for d in DTYPES]
    sheet = draw(tmp_path, figure, rows)
    assert len(sheet.axes) == 3
    assert len({(ax.get_xlim(), ax.get_ylim()) for ax in sheet.axes}) == 1
    for panel, dtype in enumerate(DTYPES):
        assert dtype in [text.get_text() for text in sheet.axes[panel].texts]
        of = {m.row["dtype"] for m in sheet.marks if m.ax is sheet.axes[panel]}
        assert of == {dtype}
        assert set(lines(sheet, panel)) == {"naive", "torch", "online", "copy roof"}
    named = [text.get_text() for text in sheet.legends[0].get_texts()]
    assert named == ["naive", "torch", "online", "copy roof"]
    assert "commit 0123456789ab" in words(sheet)


def test_a_dtype_that_was_not_timed_has_no_panel_and_one_alone_no_figure(tmp_path: Path) -> None:
    two = [row(k, n, dtype=d) for k in KERNELS for n in PAPER for d in DTYPES[::2]]
    assert len(draw(tmp_path, DTYPES_TIME, two).axes) == 2
    assert plates(tmp_path, DTYPES_TIME, two[::2]) == []


def test_panels_never_mix_protocols_or_rows(tmp_path: Path) -> None:
    rows = [row(k, n, dtype="float32") for k in KERNELS for n in PAPER]
    rows += [row(k, n, dtype="float16", timer="graph") for k in KERNELS for n in PAPER]
    rows += [row(k, n, dtype="bfloat16", rows=64) for k in KERNELS for n in PAPER]
    assert plates(tmp_path, DTYPES_TIME, rows) == []


def test_halves_of_bytes_are_seen_in_time(tmp_path: Path) -> None:
    rows = [row(k, n, dtype=d) for k in KERNELS for n in PAPER for d in DTYPES]
    sheet = draw(tmp_path, DTYPES_TIME, rows)
    wide, narrow = (lines(sheet, panel)["torch"][-1, 1] for panel in (0, 1))
    assert np.isclose(wide / narrow, 2, rtol=0.05)
