"""A figure page: a canvas with title, subtitle and small print, and the files it is written to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import matplotlib
import pandas as pd
from matplotlib import figure
from matplotlib.axes import Axes

from analysis.figures.style import CACHES, DOT, MARGIN, MUTED, theme
from analysis.load import Inputs, rows_hash
from analysis.published import OPERATION
from analysis.selection import timer_label
from experiments.data.files import write_file

Canvas = figure.Figure
DPI = 240  # dots an inch
WIDTH = 6.6  # inches: lines, and room for their names beside them
LEFT, WIDE = 0.078, 0.567  # of the axes; labels stand right of them
ABOVE, BELOW, BETWEEN = 0.67, 0.81, 0.56  # inches above, below and between axes
ALONE, STACKED = 2.42, 1.85  # inches: the height of a panel


@dataclass(frozen=True)
class Page:
    """One picture."""

    name: str  # of its files, without suffix
    title: str  # its subject in a few words
    subtitle: str  # GPU, dtype and shape
    small: Sequence[str]  # the small print, at most three lines
    draw: Callable[[Canvas], None]  # puts axes within 0.2 and 0.83 of the canvas's height
    size: tuple[float, float]  # inches
    gpu: str = ""  # as its driver names it; empty for a picture that no machine changes
    operation: str = OPERATION

    def render(self, texts: bool = True) -> Canvas:
        """The picture on a canvas of its own; call it within ``style.theme()``.

        Args:
            texts: Whether title, subtitle and small print are on it.
        """
        canvas = Canvas(figsize=self.size, facecolor="white")
        if texts:
            left, inch = MARGIN / self.size[0], 1 / self.size[1]
            canvas.text(left, 1 - 0.21 * inch, self.title, fontsize=11, fontweight="bold")
            canvas.text(left, 1 - 0.39 * inch, self.subtitle, fontsize=8.5, color=MUTED)
            for i, line in enumerate(reversed(self.small)):
                canvas.text(left, (0.065 + 0.107 * i) * inch, line, fontsize=5.6, color=MUTED)
        self.draw(canvas)
        return canvas

    def files(self, out: Path) -> list[Path]:
        """Writes ``<name>.svg`` and ``.png``, the same bytes at every drawing; returns them."""
        texts = {"Title": f"{self.name}: {self.title}"}
        texts["Description"] = "\n".join([self.subtitle, *self.small])
        undated: dict[str, dict[str, Any]] = {"svg": {"Date": None}, "png": {}}
        made = []
        with matplotlib.rc_context(theme()):
            canvas = self.render()
            for kind, more in undated.items():
                file = BytesIO()
                canvas.savefig(file, format=kind, dpi=DPI, metadata=texts | more)
                made.append(write_file(out / f"{self.name}.{kind}", file.getvalue()))
        return made


@dataclass(frozen=True)
class Figure:
    """A figure of the catalogue that is not lines over a size."""

    id: str  # the beginning of its files' names
    needs: str  # the rows or records that it cannot do without, in one line
    pages: Callable[[Inputs], list[Page]]  # none where the rows do not allow any
    caption: str  # one sentence on its content, and on the source's figure that it draws again
    source: str = ""  # the letter of that source, if any


def stacked_size(count: int) -> tuple[float, float]:
    """The size of a page with this many panels above each other, inches."""
    each = ALONE if count == 1 else STACKED
    return WIDTH, ABOVE + BELOW + count * each + (count - 1) * BETWEEN


def stacked(canvas: Canvas, count: int) -> list[Axes]:
    """The axes of as many panels on a page of that size, from the top."""
    height, each = canvas.get_figheight(), ALONE if count == 1 else STACKED
    bottoms = [BELOW + i * (each + BETWEEN) for i in reversed(range(count))]
    return [canvas.add_axes((LEFT, one / height, WIDE, each / height)) for one in bottoms]


def provenance(rows: pd.DataFrame, card: str, timer: str, cache: str) -> list[str]:
    """The origin of ``rows`` of one card and protocol, two lines of small print."""
    distinct = {id(environment): environment for environment in rows["environment"]}

    def values_of(name: str) -> str:
        values = [str(one[name]) for one in distinct.values() if one.get(name) is not None]
        return "/".join(dict.fromkeys("".join(filter(str.isprintable, v))[:12] for v in values))

    known = [(name, values_of(name)) for name in ("torch", "triton", "driver")]
    versions = [f"{name} {value}" for name, value in known if value]
    protocol = f"median, 95 % interval; {timer_label(timer)}, {CACHES[cache]}"
    edited = " (edited)" if "True" in values_of("dirty") else ""
    commit = f"commit {values_of('commit') or 'unknown'}{edited}"
    return [
        DOT.join([card, protocol, *versions]),
        DOT.join([commit, f"rows {rows_hash(rows)} ({len(rows)})"]),
    ]
