"""A figure of rows on one set of axes: which rows it wants, and how it draws them."""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable
from dataclasses import dataclass

import pandas as pd
from matplotlib.axes import Axes

from analysis import style
from analysis.lines import FLAG_NOTE
from analysis.load import Records
from analysis.plate import SIZE, Plate
from analysis.selection import Query, Selection, select
from analysis.sheet import Sheet

AXES = (0.088, 0.212, 0.652, 0.613)  # left, bottom, width, height; names stand right of it


@dataclass(frozen=True)
class Figure:
    """One figure of a source, drawn again.

    Attributes:
        id: Its file name, e.g. ``"d_fig1"``.
        title: What it shows, in a few words.
        query: The rows it wants.
        draw: Puts it on axes whose size axis is ready.
        note: A last line for the small print, on what is published, where that is drawn.
        caption: One sentence: what it shows, and which source's figure it draws again.
        size: Width and height, inches.
        allowed: Whether rows that make a view make this figure as well.
        besides: What that takes, in a few words.
    """

    id: str
    title: str
    query: Query
    draw: Callable[[Axes, Selection], None]
    note: str = ""
    caption: str = ""
    size: tuple[float, float] = SIZE
    allowed: Callable[[Selection], bool] = lambda view: True
    besides: str = ""

    @property
    def needs(self) -> str:
        """Which rows it cannot do without, in one line."""
        return needs(self.id, self.query) + (f", {self.besides}" if self.besides else "")

    def plates(self, evidence: Records, frame: pd.DataFrame) -> list[Plate]:
        """A picture for each GPU whose rows allow it."""
        views = [select(frame, gpu, self.query) for gpu in sorted(frame["gpu"].unique())]
        return [self.plate(view) for view in views if view is not None and self.allowed(view)]

    def plate(self, view: Selection) -> Plate:
        """The picture of one GPU's rows."""

        def draw(sheet: Sheet) -> None:
            ax = sheet.add_axes(AXES)
            style.power_axis(ax, view)
            self.draw(ax, view)

        small = style.small_print(view, flagged(view))
        small += [self.note] if self.note and view.exact else []
        name = f"{self.id}-{slug(view.gpu)}"
        return Plate(name, self.title, style.subtitle(view), small, draw, self.size, view.gpu)


def needs(name: str, query: Query) -> str:
    """Which rows a figure cannot do without, in one line."""
    over = style.SYMBOLS[query.over]
    fixed = "M" if over == "N" else "N"
    return (
        f"{name} needs timed softmax rows of one {fixed} and dtype at two or more {over}, "
        f"best {fixed} = {query.at} {query.dtype}"
    )


def flagged(*views: Selection) -> list[str]:
    """The remark on points that are crossed out, where there are any."""
    own = (view.points[view.points["operation"] != "copy"] for view in views)
    return [FLAG_NOTE] if any(points["above_roof"].eq(True).any() for points in own) else []


def slug(gpu: str) -> str:
    """A device's name as part of a file name; a name without a Latin letter becomes a number."""
    name = re.sub(r"[^a-z0-9]+", "-", gpu.lower()).strip("-")
    return name or f"gpu-{zlib.crc32(gpu.encode()):08x}"
