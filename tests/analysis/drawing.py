"""What is on a picture, asked of its axes."""

from collections.abc import Sequence
from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.text import Text

from analysis.figures.lines import LineFigure
from analysis.figures.style import Canvas, Figure, Page, theme
from analysis.load import Inputs, Records, load
from experiments.data.rows import Row
from tests.analysis.plausible import write

NARROW = (256, 512, 1024, 2048, 4096, 8192)


def inputs_of(folder: Path, rows: Sequence[Row]) -> Inputs:
    return Inputs(folder, folder, load(write(folder / "rows", rows)), Records(), {})


def pages(folder: Path, figure: Figure | LineFigure, rows: Sequence[Row]) -> list[Page]:
    return figure.pages(inputs_of(folder, rows))


def rendered(page: Page) -> Canvas:
    with matplotlib.rc_context(theme()):
        return page.render()


def draw(folder: Path, figure: Figure | LineFigure, rows: Sequence[Row]) -> Canvas:
    """The only picture of these rows."""
    [page] = pages(folder, figure, rows)
    return rendered(page)


def lines(canvas: Canvas, panel: int = 0) -> dict[str, np.ndarray]:
    """Label to an array of (x, y), of all that is drawn with a label."""
    ax: Axes = canvas.axes[panel]
    drawn = [line for line in ax.get_lines() if not str(line.get_label()).startswith("_")]
    return {str(line.get_label()): np.asarray(line.get_xydata(), dtype=float) for line in drawn}


def texts(canvas: Canvas) -> list[Text]:
    legends = [ax.get_legend() for ax in canvas.axes]
    named = [text for one in legends if one is not None for text in one.get_texts()]
    return [*canvas.texts, *(text for ax in canvas.axes for text in ax.texts), *named]


def words(canvas: Canvas) -> str:
    return "\n".join(text.get_text() for text in texts(canvas))


def overhang(canvas: Canvas) -> list[str]:
    """Texts that do not fit on the canvas."""
    with matplotlib.rc_context(theme()):
        canvas.draw_without_rendering()  # places the legends
        boxes = [(text.get_text(), text.get_window_extent()) for text in texts(canvas)]
    return [t for t, box in boxes if box.x0 < -1 or box.x1 > canvas.bbox.width + 1]
