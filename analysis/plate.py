"""A canvas with title, subtitle and small print, and its files, for figures of any axes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import matplotlib
from matplotlib.figure import Figure as Canvas

from analysis import style
from analysis.palette import MUTED

DPI = 240  # dots an inch


@dataclass(frozen=True)
class Plate:
    """One picture, ready to be drawn.

    Attributes:
        name: Its file name without suffix.
        title: What it shows, in a few words.
        subtitle: On what: GPU, dtype, shape.
        small: The small print, at most three lines.
        draw: Puts axes on the canvas; they belong within 0.2 and 0.83 of its height.
        size: Width and height, inches.
    """

    name: str
    title: str
    subtitle: str
    small: Sequence[str]
    draw: Callable[[Canvas], None]
    size: tuple[float, float] = (5.8, 3.8)

    def render(self) -> Canvas:
        """The picture on a canvas of its own; call it within ``style.theme()``."""
        width, height = self.size
        canvas = Canvas(figsize=self.size, facecolor="white")
        left, inch = 0.116 / width, 1 / height
        canvas.text(left, 1 - 0.21 * inch, self.title, fontsize=11, fontweight="bold")
        canvas.text(left, 1 - 0.39 * inch, self.subtitle, fontsize=8.5, color=MUTED)
        for i, line in enumerate(self.small):
            y = (0.2 + 0.114 * (len(self.small) - 2 - i)) * inch
            canvas.text(left, y, line, fontsize=5.6, color=MUTED)
        self.draw(canvas)
        return canvas

    def files(self, out: Path) -> list[Path]:
        """Writes ``<name>.svg`` and ``.png``, the same bytes at every drawing; returns them."""
        told = {"Title": f"{self.name}: {self.title}", "Description": "\n".join(self.small)}
        made = []
        with matplotlib.rc_context(style.theme()):
            canvas = self.render()
            out.mkdir(parents=True, exist_ok=True)
            for kind in ("svg", "png"):
                path = out / f"{self.name}.{kind}"
                undated = told | ({"Date": None} if kind == "svg" else {})
                canvas.savefig(path, dpi=DPI, metadata=undated)
                made.append(path)
        return made
