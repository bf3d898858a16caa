"""The pictures as the page shows them: markup, caption, points to read, and what has no point."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import matplotlib
import numpy as np
import pandas as pd

from analysis.figures.page import Canvas, Mark
from analysis.figures.style import theme
from analysis.gallery import ENTRIES, Picture, pictures_with_packed
from analysis.load import Inputs
from analysis.report.contents import anchor_of, label_of
from analysis.report.facts import HEADS, facts, shape
from analysis.report.inline import SETTINGS, Inlined, inlined
from analysis.selection import name_variants, records_of

SIZES = ("rows", "cols")
ALIKE = 12  # pictures of one figure and GPU: where each sweep has its own, the last ones
TALL = 1.3  # heights of a width from which a picture is folded
# The section of a picture by how its id begins; all others are the sources' and across variants.
SECTIONS = {"roofline": "roofline", "traffic": "traffic", "dram": "traffic", "limits": "limits",
            "headline": "result",
            "card": "noise", "noise": "noise"}  # fmt: skip
PLACES = 5  # decimals of a share: a hundredth of a pixel of the widest page


@dataclass(frozen=True)
class Readings:
    """Every row that any picture of the page draws, once, and each picture's points."""

    # texts under `HEADS`, each with its place among them; points hold these places
    rows: dict[tuple[str, ...], int] = field(default_factory=dict)
    # by anchor, the series: a name and its points (left, top, row)
    pictures: dict[str, list[dict[str, Any]]] = field(default_factory=dict)

    def add(self, anchor: str, marks: Iterable[tuple[tuple[float, float], Mark]]) -> None:
        """Takes up the marks of a picture, each with its place as shares of the picture."""
        series: dict[tuple[int, str], list[list[float]]] = defaultdict(list)
        axes: dict[Any, int] = {}
        for place, mark in marks:
            texts = tuple(facts(mark.row))
            index = self.rows.setdefault(texts, len(self.rows))
            ax = axes.setdefault(mark.ax, len(axes))
            series[ax, texts[0]].append([*(round(share, PLACES) for share in place), index])
        self.pictures[anchor] = [
            {"name": name, "points": sorted(points)} for (_, name), points in series.items()
        ]

    def data(self) -> dict[str, Any]:
        """All of it, for the page's script."""
        return {"heads": HEADS, "rows": list(self.rows), "pictures": self.pictures}


@dataclass(frozen=True)
class Shown:
    """One picture on the page."""

    anchor: str  # its id there
    label: str  # the id that the sources' index knows it by, if any; of a second GPU's picture too
    picture: Picture
    drawing: Inlined
    readable: int  # how many of its points can be read
    left_out: str  # a sentence about the points that it leaves out; empty where it shows all
    gaps: Sequence[str]  # points of its variants that have no time, and why, one line each

    @property
    def tall(self) -> bool:
        """Whether it is much higher than a screen."""
        width, height = self.picture.page.size
        return height > TALL * width


@dataclass(frozen=True)
class Gallery:
    """Every picture of the page."""

    pictures: Mapping[str, Sequence[Shown]]  # by section
    missing: Sequence[str]  # what each figure that cannot be drawn would need; which are left out
    readings: Readings
    colors: frozenset[str]


def gallery(inputs: Inputs, anchors: set[str], most: int, more: Sequence[Picture] = ()) -> Gallery:
    """Draws every picture with at most ``most`` points, and `ALIKE` of one figure and GPU.

    ``anchors`` are those taken already, and gains theirs. ``more`` pictures follow.
    """
    readings, failed = Readings(), _failed(inputs)
    groups: dict[tuple[str, str], list[Picture]] = defaultdict(list)
    for picture in [*pictures_with_packed(inputs), *more]:
        groups[picture.id, picture.page.gpu].append(picture)
    drawn = {name for name, _ in groups}
    missing = [entry.needs for entry in ENTRIES if entry.id not in drawn]
    sections: dict[str, list[Shown]] = {name: [] for name in ("figures", *SECTIONS.values())}
    for (name, gpu), alike in groups.items():
        section = sections[SECTIONS.get(name.partition("_")[0], "figures")]
        section += [_shown(one, anchors, readings, failed, most) for one in alike[-ALIKE:]]
        if len(alike) > ALIKE:
            missing.append(
                f"{len(alike) - ALIKE} of {len(alike)} pictures of {name} on {gpu}: the last "
                f"{ALIKE} are above; `make figures` draws all"
            )
    colors = [shown.drawing.colors for section in sections.values() for shown in section]
    return Gallery(sections, missing, readings, frozenset().union(*colors))


def evenly(count: int, most: int) -> list[int]:
    """``most`` of ``count`` places, from first to last and evenly spaced; all where few."""
    places: list[int] = np.linspace(0, count - 1, min(count, most)).astype(int).tolist()
    return places


def script_json(data: Any) -> str:
    """JSON that may stand inside a script element: no text in it can end the element."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for letter in "<>&\u2028\u2029":
        text = text.replace(letter, f"\\u{ord(letter):04x}")
    return text


def _shown(
    picture: Picture,
    anchors: set[str],
    readings: Readings,
    failed: pd.DataFrame,
    most: int,
) -> Shown:
    page, anchor = picture.page, anchor_of(picture.id, f"figure-{picture.page.name}", anchors)
    with matplotlib.rc_context(theme() | SETTINGS):
        canvas = page.render()
        marks = canvas.marks
        shown = [marks[place] for place in evenly(len(marks), most)]
        fewer = len(shown) < len(marks)
        if fewer:
            _leave_out(canvas, shown)
        beside = [page.title, page.subtitle, *page.small]
        drawing = inlined(canvas, anchor, f"{page.title}. {page.subtitle}.", beside)
        readings.add(anchor, [(drawing.place(*mark.place), mark) for mark in shown])
    left_out = f"{len(shown):,} of {len(marks):,} points are drawn; rows.jsonl has all."
    gaps = _gaps(marks, failed[failed["gpu"] == page.gpu])
    return Shown(anchor, label_of(picture.id), picture, drawing, len(shown),
                 left_out if fewer else "", gaps)  # fmt: skip


def _leave_out(canvas: Canvas, shown: Sequence[Mark]) -> None:
    """Takes all other marked points off the lines that consist of points alone."""
    kept = {(mark.ax, mark.x, mark.y) for mark in shown}
    marked = {(mark.ax, mark.x, mark.y) for mark in canvas.kept}
    for ax in canvas.axes:
        for line in ax.lines:
            x, y = (np.asarray(data, float) for data in (line.get_xdata(), line.get_ydata()))
            points = [(ax, *place) for place in zip(x.tolist(), y.tolist(), strict=True)]
            if line.get_linestyle() == "None" and len(points) > 1 and not marked.isdisjoint(points):
                stays = np.array([point in kept or point not in marked for point in points])
                line.set_data(x[stays], y[stays])


def _failed(inputs: Inputs) -> pd.DataFrame:
    """Rows without a valid time; ``silent`` are those whose variant has none on its GPU."""
    frame = name_variants(inputs.frame)
    ok = frame["status"] == "ok"
    timed = ok.groupby([frame["gpu"], frame["variant"]]).transform("any")
    return frame.assign(silent=~timed)[~ok]


def _gaps(marks: Sequence[Mark], failed: pd.DataFrame) -> list[str]:
    """Failures within the sizes and dtypes of a figure over one size, of the variants it draws.

    A variant that failed everywhere is on no figure, and is named under all of them.
    """
    drawn = {
        name: {mark.row.get(name, "") for mark in marks} for name in (*SIZES, "dtype", "variant")
    }
    if all(len(drawn[size]) != 1 for size in SIZES):
        return []
    within = failed["silent"] | failed["variant"].isin(drawn["variant"])
    within &= failed["dtype"].isin(drawn["dtype"])
    for size in SIZES:
        within &= failed[size].between(min(drawn[size]), max(drawn[size]))
    texts = [
        f"{row['variant']} at {shape(row)} {row['dtype']}: {row['status']}, {row['reason']}"
        for row in records_of(failed[within])
    ]
    return list(dict.fromkeys(texts))
