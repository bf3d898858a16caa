"""The pictures as the page shows them: markup, caption, points to read, and what has no point."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib
import numpy as np

from analysis import style
from analysis.gallery import ENTRIES, Picture, pictures
from analysis.load import Inputs
from analysis.report.contents import CONTENTS, anchor_of
from analysis.report.facts import shape
from analysis.report.inline import SETTINGS, Inlined, inlined
from analysis.report.reading import Readings
from analysis.selection import name_variants, records_of
from analysis.sheet import Mark, Sheet

SIZES = ("rows", "cols")
ALIKE = 6  # pictures of one figure and GPU: where each sweep has its own, the last ones
ROOFLINE, TRAFFIC = ("roofline",), ("traffic", "dram")  # how the ids of these sections begin


@dataclass(frozen=True)
class Shown:
    """One picture on the page.

    Attributes:
        anchor: Its id there.
        id: Which figure it is.
        title: What it shows, in a few words.
        subtitle: On what.
        caption: One sentence.
        small: The small print: protocol, commit, rows.
        drawing: Its markup.
        readable: How many of its points can be read.
        left_out: What is said of the points that it leaves out; empty where it shows all.
        gaps: Points of its variants that have no time, and why, one line each.
    """

    anchor: str
    id: str
    title: str
    subtitle: str
    caption: str
    small: Sequence[str]
    drawing: Inlined
    readable: int
    left_out: str
    gaps: tuple[str, ...]

    @property
    def label(self) -> str:
        """The id that the sources' index knows it by, if any; of a second GPU's picture too."""
        return next((one.id for one in CONTENTS if one.stem == self.id), "")


@dataclass(frozen=True)
class Gallery:
    """Every picture of the page, by section, and what is missing.

    Attributes:
        sourced: The sources' figures and those across variants.
        traffic: What was counted and measured.
        roofline: The roofline three ways.
        missing: What each figure that cannot be drawn would need.
        readings: Their points.
    """

    sourced: tuple[Shown, ...]
    traffic: tuple[Shown, ...]
    roofline: tuple[Shown, ...]
    missing: tuple[str, ...]
    readings: Readings

    @property
    def shown(self) -> tuple[Shown, ...]:
        """All of them."""
        return self.sourced + self.traffic + self.roofline


def evenly(count: int, most: int) -> list[int]:
    """``most`` of ``count`` places, from first to last and evenly spaced; all where few."""
    places: list[int] = np.linspace(0, count - 1, min(count, most)).astype(int).tolist()
    return places


def gallery(material: Inputs, anchors: set[str], most: int) -> Gallery:
    """Draws every picture with at most ``most`` points, and `ALIKE` of one figure and GPU.

    ``anchors`` are those taken already, and gains theirs.
    """
    readings, found = Readings(), []
    failed = _failed(material)
    groups: dict[tuple[str, str], list[Picture]] = {}
    for picture in pictures(material):
        groups.setdefault((picture.id, picture.gpu), []).append(picture)
    for alike in groups.values():
        found += [_shown(one, anchors, readings, failed, most) for one in alike[-ALIKE:]]
    fewer = tuple(
        f"{len(alike) - ALIKE} of {len(alike)} pictures of {name} on {gpu}: the last {ALIKE} are "
        "above; `make figures` draws all"
        for (name, gpu), alike in groups.items()
        if len(alike) > ALIKE
    )
    roofline = tuple(s for s in found if s.id.startswith(ROOFLINE))
    traffic = tuple(s for s in found if s.id.startswith(TRAFFIC))
    sourced = tuple(s for s in found if s not in roofline and s not in traffic)
    drawn = {shown.id for shown in found}
    needs = tuple(entry.needs for entry in ENTRIES if entry.id not in drawn)
    return Gallery(sourced, traffic, roofline, needs + fewer, readings)


def _shown(
    picture: Picture,
    anchors: set[str],
    readings: Readings,
    failed: list[dict[str, Any]],
    most: int,
) -> Shown:
    plate, anchor = picture.plate, anchor_of(picture.id, f"figure-{picture.name}", anchors)
    label = f"{plate.title}. {plate.subtitle}."
    with matplotlib.rc_context(style.theme() | SETTINGS):
        sheet = picture.render()
        marks = sheet.marks
        shown = [marks[place] for place in evenly(len(marks), most)]
        if len(shown) < len(marks):
            _leave_out(sheet, shown)
        beside = [plate.title, plate.subtitle, *plate.small]
        drawing = inlined(sheet, anchor, label, beside)
        readings.add(anchor, [(drawing.place(*mark.place), mark) for mark in shown])
    gaps = _gaps(marks, [row for row in failed if row["gpu"] == picture.gpu])
    fewer = f"{len(shown):,} of {len(marks):,} points are drawn; rows.jsonl has all."
    return Shown(anchor, picture.id, plate.title, plate.subtitle, picture.caption, plate.small,
                 drawing, readings.count(anchor), fewer if len(shown) < len(marks) else "",
                 tuple(gaps))  # fmt: skip


def _leave_out(sheet: Sheet, shown: Sequence[Mark]) -> None:
    """Takes all other marked points off the lines that consist of points alone."""
    kept = {(mark.ax, mark.x, mark.y) for mark in shown}
    marked = {(mark.ax, mark.x, mark.y) for mark in sheet.kept}
    for ax in sheet.axes:
        for line in ax.lines:
            x, y = (np.asarray(data, float) for data in (line.get_xdata(), line.get_ydata()))
            points = [(ax, *place) for place in zip(x.tolist(), y.tolist(), strict=True)]
            if line.get_linestyle() == "None" and len(points) > 1 and not marked.isdisjoint(points):
                stays = np.array([point in kept or point not in marked for point in points])
                line.set_data(x[stays], y[stays])


def _failed(material: Inputs) -> list[dict[str, Any]]:
    """Rows without a valid time, each knowing whether its variant has one anywhere on its GPU."""
    frame = name_variants(material.frame)
    ok = frame[frame["status"] == "ok"]
    timed = set(zip(ok["gpu"], ok["variant"], strict=True))
    failed = records_of(frame[frame["status"] != "ok"])
    return [row | {"silent": (row["gpu"], row["variant"]) not in timed} for row in failed]


def _gaps(marks: Sequence[Mark], failed: Sequence[dict[str, Any]]) -> list[str]:
    """Failures within the sizes and dtypes of a figure over one size, of the variants it draws.

    A variant that failed everywhere is on no figure, and is told on all of them.
    """
    drawn = {
        name: {mark.row.get(name, "") for mark in marks} for name in (*SIZES, "dtype", "variant")
    }
    if all(len(drawn[size]) != 1 for size in SIZES):
        return []
    told = [
        f"{row['variant']} at {shape(row)} {row['dtype']}: {row['status']}, {row['reason']}"
        for row in failed
        if all(min(drawn[size]) <= row[size] <= max(drawn[size]) for size in SIZES)
        and row["dtype"] in drawn["dtype"]
        and (row["silent"] or row["variant"] in drawn["variant"])
    ]
    return list(dict.fromkeys(told))
