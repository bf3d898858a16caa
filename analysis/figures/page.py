"""A figure page: a canvas with title, subtitle and small print, its points, its files.

Each drawn point remembers its row (`Canvas.marks`), so that the report can show the points one by
one. A row's `kernel`, `reason` and `params` hold whatever was recorded: escape them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import matplotlib
import pandas as pd
from matplotlib import figure
from matplotlib.axes import Axes

from analysis.figures.style import CACHES, DOT, MARGIN, MUTED, theme
from analysis.load import Records, rows_hash
from analysis.selection import timer_label
from experiments.data.files import write_file

DPI = 240  # dots an inch
SIZE = (6.6, 3.9)  # inches: lines, and room for their names beside them


@dataclass(frozen=True)
class Mark:
    """A drawn point of ``row``, at (x, y) in data coordinates."""

    ax: Axes
    x: float
    y: float
    row: Mapping[str, Any]  # with its derived columns and ``variant``; or a record

    @property
    def within(self) -> bool:
        """Whether it lies within the limits of its axes."""
        (left, right), (low, high) = self.ax.get_xlim(), self.ax.get_ylim()
        return left <= self.x <= right and min(low, high) <= self.y <= max(low, high)

    @property
    def place(self) -> tuple[float, float]:
        """How far from the canvas's left and top, as shares of its width and height."""
        self.ax.get_xlim(), self.ax.get_ylim()  # limits are settled when they are asked for
        across, up = self.ax.transData.transform((self.x, self.y))
        canvas = self.ax.get_figure(root=True)
        assert canvas is not None
        return float(across / canvas.bbox.width), float(1 - up / canvas.bbox.height)


class Canvas(figure.Figure):
    """A canvas with its marks."""

    def __init__(self, size: tuple[float, float]) -> None:
        """An empty canvas; ``size`` is its width and height in inches."""
        super().__init__(figsize=size, facecolor="white")
        self.kept: list[Mark] = []

    @property
    def marks(self) -> list[Mark]:
        """The points within their axes' limits, in the order of drawing."""
        return [mark for mark in self.kept if mark.within]


def mark(
    ax: Axes, x: Iterable[float], y: Iterable[float], rows: Iterable[Mapping[str, Any]]
) -> None:
    """Remembers ``rows``, in their order, as drawn at (x, y); NaN is drawn nowhere."""
    canvas = ax.get_figure(root=True)
    if not isinstance(canvas, Canvas):
        return
    for across, up, row in zip(x, y, rows, strict=True):
        if not (math.isnan(across) or math.isnan(up)):
            canvas.kept.append(Mark(ax, float(across), float(up), row))


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

    def render(self) -> Canvas:
        """The picture on a canvas of its own; call it within ``style.theme()``."""
        width, height = self.size
        canvas = Canvas(self.size)
        left, inch = MARGIN / width, 1 / height
        canvas.text(left, 1 - 0.21 * inch, self.title, fontsize=11, fontweight="bold")
        canvas.text(left, 1 - 0.39 * inch, self.subtitle, fontsize=8.5, color=MUTED)
        for i, line in enumerate(self.small):
            y = (0.065 + 0.107 * (len(self.small) - 1 - i)) * inch
            canvas.text(left, y, line, fontsize=5.6, color=MUTED)
        self.draw(canvas)
        return canvas

    def files(self, out: Path) -> list[Path]:
        """Writes ``<name>.svg`` and ``.png``, the same bytes at every drawing; returns them."""
        with matplotlib.rc_context(theme()):
            canvas = self.render()
            return [self._file(canvas, out, "svg"), self._file(canvas, out, "png")]

    def _file(self, canvas: Canvas, out: Path, kind: str) -> Path:
        """Title and small print go into the file; undated, so that a redraw is the same file."""
        texts: dict[str, str | None] = {
            "Title": f"{self.name}: {self.title}",
            "Description": "\n".join([self.subtitle, *self.small]),
        }
        undated = {"Date": None} if kind == "svg" else {}
        drawn = BytesIO()
        canvas.savefig(drawn, format=kind, dpi=DPI, metadata=texts | undated)
        return write_file(out / f"{self.name}.{kind}", drawn.getvalue())


@dataclass(frozen=True)
class Figure:
    """A figure of the catalogue, whatever it is drawn from."""

    id: str  # the beginning of its files' names
    needs: str  # which rows or records it cannot do without, in one line
    pages: Callable[[Records, pd.DataFrame], list[Page]]  # none where they do not allow any
    caption: str  # one sentence: what it shows, and which source's figure it draws again


def provenance(
    rows: pd.DataFrame, card: str, timer: str, cache: str, notes: Iterable[str] = ()
) -> list[str]:
    """Where ``rows`` of one card and protocol come from, two lines of small print.

    The first names card, protocol and versions; the second the commit, the rows and ``notes``.
    """
    distinct = {id(environment): environment for environment in rows["environment"]}

    def values_of(name: str) -> str:
        values = [one[name] for one in distinct.values() if one.get(name) is not None]
        return "/".join(
            dict.fromkeys("".join(filter(str.isprintable, str(value)))[:12] for value in values)
        )

    known = [(name, values_of(name)) for name in ("torch", "triton", "driver")]
    versions = [f"{name} {value}" for name, value in known if value]
    protocol = f"median, 95 % interval; {timer_label(timer)}, {CACHES[cache]}"
    commit = values_of("commit") or "unknown"
    edited = " (edited)" if "True" in values_of("dirty") else ""
    which = f"rows {rows_hash(rows)} ({len(rows)})"
    return [
        DOT.join([card, protocol, *versions]),
        DOT.join([f"commit {commit}{edited}", which, *notes]),
    ]
