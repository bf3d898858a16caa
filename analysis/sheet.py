"""A canvas that remembers which of its points were drawn from which row."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas


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
        sheet = self.ax.get_figure(root=True)
        assert sheet is not None
        return float(across / sheet.bbox.width), float(1 - up / sheet.bbox.height)


class Sheet(Canvas):
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
    sheet = ax.get_figure(root=True)
    if not isinstance(sheet, Sheet):
        return
    for across, up, row in zip(x, y, rows, strict=True):
        if not (math.isnan(across) or math.isnan(up)):
            sheet.kept.append(Mark(ax, float(across), float(up), row))
