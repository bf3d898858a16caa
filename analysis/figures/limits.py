"""Limits: each shape's share of the copy roof, and the best peer's time over that of `auto`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby

import pandas as pd

from analysis import style
from analysis.figure import slug
from analysis.figures import limits_panels, limits_scatter
from analysis.limits import NEEDS, SHORT_US
from analysis.limits.means import best, geomean
from analysis.limits.points import Point
from analysis.limits.rows import points_of
from analysis.load import Records
from analysis.plate import Plate
from analysis.sheet import Sheet
from experiments.data.cards import card_of

Points = Sequence[Point]
DOT = "  ·  "


@dataclass(frozen=True)
class Limits:
    """One picture for each GPU and protocol.

    Attributes:
        id: The beginning of its files' names.
        title: What it shows, in a few words.
        caption: One sentence: what it shows.
        size: Width and height of a picture of these points, inches.
        draw: Puts them on the canvas.
        notes: What the small print says of how they are drawn.
        wide: Whether it is a page wide, and shows shares of the roof as well.
    """

    id: str
    title: str
    caption: str
    size: Callable[[Points], tuple[float, float]]
    draw: Callable[[Sheet, Points], None]
    notes: tuple[str, ...]
    wide: bool

    @property
    def needs(self) -> str:
        """Which rows it cannot do without, in one line."""
        return f"{self.id} needs {NEEDS}{', and a copy' * self.wide}"

    def plates(self, evidence: Records, frame: pd.DataFrame) -> list[Plate]:
        """A picture for each GPU and protocol that has `auto` beside a peer."""
        points = [p for p in points_of(frame) if p.share is not None or not self.wide]
        alike = groupby(points, key=lambda p: (p.gpu, p.timer, p.cache))
        return [self._plate(frame, place, list(mine)) for place, mine in alike]

    def _plate(self, frame: pd.DataFrame, place: tuple[str, str, str], points: Points) -> Plate:
        gpu, timer, cache = place
        card = card_of(gpu).name
        alike = (frame["gpu"] == gpu) & (frame["timer"] == timer) & (frame["cache"] == cache)
        what = "best peer / auto, geometric mean: " if self.wide else "mean "
        means = [geomean(points, best)]
        told = [
            card,
            style.TIMERS.get(timer, timer),
            *[f"{what}{m.value:.3f}×" for m in means if m],
        ]
        notes = [*self.notes, *["open: above roof, no win"] * any(p.above_roof for p in points)]
        where, which = style.provenance(frame[alike], card, timer, cache)
        small = [where, which, DOT.join(notes)] if self.wide else _narrow(where, which)
        name = "-".join([self.id, slug(gpu), timer, *[cache] * (cache != "cold")])
        return Plate(name, self.title, DOT.join(told), small,
                     lambda sheet: self.draw(sheet, points), self.size(points), gpu)  # fmt: skip


def _narrow(where: str, what: str) -> list[str]:
    """The small print in lines that a column holds."""
    card, protocol, *versions = where.split(DOT)
    return [DOT.join([card, protocol]), DOT.join(versions) or "versions unknown", what]


LIMITS = Limits(
    "limits",
    "At the limit: the copy roof and the best public softmax, shape by shape",
    "At every shape and dtype the share of the copy roof that auto and the fastest public softmax "
    "reach, and that peer's time over that of auto.",
    limits_panels.size,
    limits_panels.draw,
    (f"marker: that variant's  ·  shaded: below {SHORT_US:g} µs", "a number: beyond the axis",
     "bars: 95 %, of rounds"),
    wide=True,
)  # fmt: skip
LIMITS_RATIO = Limits(
    "limits_ratio",
    "Best public softmax over auto",
    "The fastest public softmax's time over that of auto against the bytes that any softmax moves, "
    "at every shape and dtype.",
    limits_scatter.size,
    limits_scatter.draw,
    (),
    wide=False,
)
