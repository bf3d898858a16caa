"""The pictures as the page shows them: markup, caption, points to read, and what has no point."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib

from analysis import style
from analysis.gallery import ENTRIES, Picture, pictures
from analysis.load import Inputs
from analysis.report.contents import CONTENTS, anchor_of
from analysis.report.facts import shape
from analysis.report.inline import SETTINGS, Inlined, inlined
from analysis.report.reading import Readings
from analysis.selection import name_variants, records_of
from analysis.sheet import Mark

SIZES = ("rows", "cols")
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


def gallery(material: Inputs, anchors: set[str]) -> Gallery:
    """Draws every picture; ``anchors`` are those taken already, and gains theirs."""
    readings, found = Readings(), []
    failed = _failed(material)
    for picture in pictures(material):
        found.append(_shown(picture, anchors, readings, failed))
    roofline = tuple(s for s in found if s.id.startswith(ROOFLINE))
    traffic = tuple(s for s in found if s.id.startswith(TRAFFIC))
    sourced = tuple(s for s in found if s not in roofline and s not in traffic)
    drawn = {shown.id for shown in found}
    needs = tuple(entry.needs for entry in ENTRIES if entry.id not in drawn)
    return Gallery(sourced, traffic, roofline, needs, readings)


def _shown(
    picture: Picture, anchors: set[str], readings: Readings, failed: list[dict[str, Any]]
) -> Shown:
    plate, anchor = picture.plate, anchor_of(picture.id, f"figure-{picture.name}", anchors)
    label = f"{plate.title}. {plate.subtitle}."
    with matplotlib.rc_context(style.theme() | SETTINGS):
        sheet = picture.render()
        beside = [plate.title, plate.subtitle, *plate.small]
        drawing = inlined(sheet, anchor, label, beside)
        readings.add(anchor, [(drawing.place(*mark.place), mark) for mark in sheet.marks])
    gaps = _gaps(sheet.marks, [row for row in failed if row["gpu"] == picture.gpu])
    return Shown(anchor, picture.id, plate.title, plate.subtitle, picture.caption, plate.small,
                 drawing, readings.count(anchor), tuple(gaps))  # fmt: skip


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
