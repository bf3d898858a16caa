"""A figure page: a canvas with title, subtitle and small print, its points, its files.

Each drawn point remembers its row, so that another page can show the points one by one::

    with matplotlib.rc_context(style.theme()):
        canvas = page.render()              # a matplotlib figure
        canvas.savefig(file, format="svg", metadata=page.metadata("svg"))
    for mark in canvas.marks:               # every point that was drawn from a row
        left, top = mark.place              # shares of the canvas's width and height
        mark.row                            # the row: its fields, derived columns, `variant`

A row's `kernel`, `reason` and `params` hold whatever was recorded: escape them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any, Literal

import matplotlib
import pandas as pd
from matplotlib import figure
from matplotlib.axes import Axes

from analysis.figures.style import CACHES, DOT, MARGIN, MUTED, TIMERS, theme
from analysis.load import Records, rows_hash
from experiments.data.files import write_file

DPI = 240  # dots an inch
SIZE = (5.8, 3.8)  # inches, a column and a half


@dataclass(frozen=True)
class Mark:
    """A drawn point.

    Attributes:
        ax: The axes it stands on.
        x: In data coordinates.
        y: In data coordinates.
        row: What is drawn there: a row with its derived columns and ``variant``, or a record.
    """

    ax: Axes
    x: float
    y: float
    row: Mapping[str, Any]

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
    draw: Callable[[Canvas], None]
    size: tuple[float, float] = SIZE
    gpu: str = ""

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

    def metadata(self, kind: Literal["svg", "png"]) -> dict[str, str | None]:
        """Title and small print for the file itself; undated, so that a redraw is the same file."""
        texts: dict[str, str | None] = {
            "Title": f"{self.name}: {self.title}",
            "Description": "\n".join([self.subtitle, *self.small]),
        }
        return texts | ({"Date": None} if kind == "svg" else {})

    def files(self, out: Path) -> list[Path]:
        """Writes ``<name>.svg`` and ``.png``, the same bytes at every drawing; returns them."""
        made = []
        kinds: tuple[Literal["svg", "png"], ...] = ("svg", "png")
        with matplotlib.rc_context(theme()):
            canvas = self.render()
            for kind in kinds:
                drawn = BytesIO()
                canvas.savefig(drawn, format=kind, dpi=DPI, metadata=self.metadata(kind))
                made.append(write_file(out / f"{self.name}.{kind}", drawn.getvalue()))
        return made


@dataclass(frozen=True)
class Figure:
    """A figure of the catalogue, whatever it is drawn from.

    Attributes:
        id: The beginning of its files' names.
        needs: Which rows or records it cannot do without, in one line.
        pages: Its pictures, none where records and rows do not allow any.
        caption: One sentence: what it shows, and which source's figure it draws again.
    """

    id: str
    needs: str
    pages: Callable[[Records, pd.DataFrame], list[Page]]
    caption: str


def provenance(
    rows: pd.DataFrame, card: str, timer: str, cache: str, notes: Iterable[str] = ()
) -> list[str]:
    """Where ``rows`` of one card and protocol come from, two lines of small print.

    The first names card, protocol and versions; the second the commit, the rows and ``notes``.
    """
    distinct = {id(environment): environment for environment in rows["environment"]}
    facts = pd.DataFrame(list(distinct.values()))

    def values_of(name: str) -> str:
        values = list(facts[name].dropna()) if name in facts else []
        texts = ("".join(filter(str.isprintable, str(value)))[:12] for value in values)
        return "/".join(dict.fromkeys(texts))

    known = {name: values_of(name) for name in ("torch", "triton", "driver")}
    versions = [f"{name} {value}" for name, value in known.items() if value]
    protocol = f"median, 95 % interval; {TIMERS.get(timer, timer)}, {CACHES[cache]}"
    commit = values_of("commit") or "unknown"
    edited = " (edited)" if "True" in values_of("dirty") else ""
    which = f"rows {rows_hash(rows)} ({len(rows)})"
    return [
        DOT.join([card, protocol, *versions]),
        DOT.join([f"commit {commit}{edited}", which, *notes]),
    ]
