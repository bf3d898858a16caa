"""What is on a picture, asked of its axes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from analysis.figures.page import Canvas, Page
from analysis.figures.style import theme
from analysis.gallery import Entry
from analysis.load import Records, load
from experiments.data.rows import Row
from tests.analysis.plausible import write

NARROW = (256, 512, 1024, 2048, 4096, 8192)
VOCABULARY = (512, 1024, 2048, 4096, 8192, 16384, 32000, 65536, 131072)


def frame_of(tmp_path: Path, rows: Sequence[Row]) -> pd.DataFrame:
    return load(write(tmp_path / "rows", rows))


def plates(tmp_path: Path, entry: Entry, rows: Sequence[Row]) -> list[Page]:
    return entry.pages(Records(), frame_of(tmp_path, rows))


def rendered(plate: Page) -> Canvas:
    with matplotlib.rc_context(theme()):
        return plate.render()


def draw(tmp_path: Path, entry: Entry, rows: Sequence[Row]) -> Canvas:
    """The only picture of these rows."""
    [plate] = plates(tmp_path, entry, rows)
    return rendered(plate)


def lines(sheet: Canvas, panel: int = 0) -> dict[str, np.ndarray]:
    """Label to an array of (x, y), of all that is drawn with a label."""
    ax: Axes = sheet.axes[panel]
    drawn = [line for line in ax.get_lines() if not str(line.get_label()).startswith("_")]
    return {str(line.get_label()): np.asarray(line.get_xydata(), dtype=float) for line in drawn}


def words(sheet: Canvas) -> str:
    texts = [*sheet.texts, *(text for ax in sheet.axes for text in ax.texts)]
    return "\n".join(text.get_text() for text in texts)
