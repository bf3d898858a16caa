"""A picture ready to be drawn: a canvas with title, subtitle and small print, and its files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import matplotlib

from analysis import style
from analysis.palette import MUTED
from analysis.sheet import Sheet

DPI = 240  # dots an inch
SIZE = (5.8, 3.8)  # inches, a column and a half


@dataclass(frozen=True)
class Plate:
    """One picture.

    Attributes:
        name: Its file name without suffix.
        title: What it shows, in a few words.
        subtitle: On what: GPU, dtype, shape.
        small: The small print, at most three lines.
        draw: Puts axes on the canvas; they belong within 0.2 and 0.83 of its height.
        size: Width and height, inches.
        gpu: The driver's name of the GPU whose rows it shows; empty for what no machine changes.
    """

    name: str
    title: str
    subtitle: str
    small: Sequence[str]
    draw: Callable[[Sheet], None]
    size: tuple[float, float] = SIZE
    gpu: str = ""

    def render(self) -> Sheet:
        """The picture on a canvas of its own; call it within ``style.theme()``."""
        width, height = self.size
        sheet = Sheet(self.size)
        left, inch = 0.116 / width, 1 / height
        sheet.text(left, 1 - 0.21 * inch, self.title, fontsize=11, fontweight="bold")
        sheet.text(left, 1 - 0.39 * inch, self.subtitle, fontsize=8.5, color=MUTED)
        for i, line in enumerate(self.small):
            y = (0.065 + 0.107 * (len(self.small) - 1 - i)) * inch
            sheet.text(left, y, line, fontsize=5.6, color=MUTED)
        self.draw(sheet)
        return sheet

    def metadata(self, kind: Literal["svg", "png"]) -> dict[str, str | None]:
        """Title and small print for the file itself; undated, so that a redraw is the same file."""
        told: dict[str, str | None] = {
            "Title": f"{self.name}: {self.title}",
            "Description": "\n".join([self.subtitle, *self.small]),
        }
        return told | ({"Date": None} if kind == "svg" else {})

    def files(self, out: Path) -> list[Path]:
        """Writes ``<name>.svg`` and ``.png``, the same bytes at every drawing; returns them."""
        made = []
        kinds: tuple[Literal["svg", "png"], ...] = ("svg", "png")
        with matplotlib.rc_context(style.theme()):
            sheet = self.render()
            out.mkdir(parents=True, exist_ok=True)
            for kind in kinds:
                path = out / f"{self.name}.{kind}"
                sheet.savefig(path, dpi=DPI, metadata=self.metadata(kind))
                made.append(path)
        return made
