"""A figure page: a canvas with title, subtitle and small print, and the files it is written to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

import matplotlib
import pandas as pd
from matplotlib import figure

from analysis.figures.style import CACHES, DOT, MARGIN, MUTED, theme
from analysis.load import Inputs, rows_hash
from analysis.published import OPERATION
from analysis.selection import timer_label
from experiments.data.files import write_file

Canvas = figure.Figure
DPI = 240  # dots an inch
SIZE = (6.6, 3.9)  # inches: lines, and room for their names beside them


@dataclass(frozen=True)
class Page:
    """One picture."""

    name: str  # of its files, without suffix
    title: str  # what it shows, in a few words
    subtitle: str  # on what: GPU, dtype, shape
    small: Sequence[str]  # the small print, at most three lines
    draw: Callable[[Canvas], None]  # puts axes within 0.2 and 0.83 of the canvas's height
    size: tuple[float, float] = SIZE  # inches
    gpu: str = ""  # as its driver names it; empty for what no machine changes
    operation: str = OPERATION

    def render(self) -> Canvas:
        """The picture on a canvas of its own; call it within ``style.theme()``."""
        width, height = self.size
        canvas = Canvas(figsize=self.size, facecolor="white")
        left, inch = MARGIN / width, 1 / height
        canvas.text(left, 1 - 0.21 * inch, self.title, fontsize=11, fontweight="bold")
        canvas.text(left, 1 - 0.39 * inch, self.subtitle, fontsize=8.5, color=MUTED)
        for i, line in enumerate(self.small):
            y = (0.065 + 0.107 * (len(self.small) - 1 - i)) * inch
            canvas.text(left, y, line, fontsize=5.6, color=MUTED)
        self.draw(canvas)
        return canvas

    def files(self, out: Path) -> list[Path]:
        """Writes ``<name>.svg`` and ``.png``, the same bytes at every drawing; returns them.

        Title and small print go into each file; no date does.
        """
        texts = {"Title": f"{self.name}: {self.title}",
                 "Description": "\n".join([self.subtitle, *self.small])}  # fmt: skip
        made = []
        with matplotlib.rc_context(theme()):
            canvas = self.render()
            for kind, undated in (("svg", {"Date": None}), ("png", {})):
                file = BytesIO()
                canvas.savefig(file, format=kind, dpi=DPI, metadata=texts | undated)
                made.append(write_file(out / f"{self.name}.{kind}", file.getvalue()))
        return made


@dataclass(frozen=True)
class Figure:
    """A figure of the catalogue that is not lines over a size."""

    id: str  # the beginning of its files' names
    needs: str  # which rows or records it cannot do without, in one line
    pages: Callable[[Inputs], list[Page]]  # none where the rows do not allow any
    caption: str  # one sentence: what it shows, and which source's figure it draws again
    source: str = ""  # the letter of that source, if any


def provenance(rows: pd.DataFrame, card: str, timer: str, cache: str) -> list[str]:
    """Where ``rows`` of one card and protocol come from, two lines of small print."""
    distinct = {id(environment): environment for environment in rows["environment"]}

    def values_of(name: str) -> str:
        values = [one[name] for one in distinct.values() if one.get(name) is not None]
        return "/".join(
            dict.fromkeys("".join(filter(str.isprintable, str(value)))[:12] for value in values)
        )

    known = [(name, values_of(name)) for name in ("torch", "triton", "driver")]
    versions = [f"{name} {value}" for name, value in known if value]
    protocol = f"median, 95 % interval; {timer_label(timer)}, {CACHES[cache]}"
    edited = " (edited)" if "True" in values_of("dirty") else ""
    return [
        DOT.join([card, protocol, *versions]),
        DOT.join([f"commit {values_of('commit') or 'unknown'}{edited}",
                  f"rows {rows_hash(rows)} ({len(rows)})"]),
    ]  # fmt: skip
