"""Every picture that rows and records allow, in the order of the sources.

How another page shows them, say with points that can be read one by one::

    for picture in pictures(material):
        with matplotlib.rc_context(style.theme()):
            sheet = picture.render()            # a matplotlib figure
            sheet.savefig(file, format="svg", metadata=picture.plate.metadata("svg"))
        for mark in sheet.marks:                # every point that was drawn from a row
            left, top = mark.place              # shares of the sheet's width and height
            mark.row                            # the row: its fields, derived columns, `variant`

A row's `kernel`, `reason` and `params` hold whatever was recorded: escape them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

import pandas as pd

from analysis.figures import FIGURES
from analysis.load import Inputs, Records
from analysis.plate import Plate
from analysis.roofline.pictures import ROOFLINE_FIGURES
from analysis.sheet import Sheet
from analysis.traffic import EVIDENCE_FIGURES


class Entry(Protocol):
    """A figure of the catalogue, whatever it is drawn from."""

    @property
    def id(self) -> str:
        """The beginning of its files' names."""

    @property
    def caption(self) -> str:
        """One sentence: what it shows, and which source's figure it draws again."""

    @property
    def needs(self) -> str:
        """Which rows or records it cannot do without, in one line."""

    def plates(self, evidence: Records, frame: pd.DataFrame) -> list[Plate]:
        """Its pictures, none where rows and records do not allow any."""


DRAWN: tuple[Entry, ...] = (*FIGURES, *EVIDENCE_FIGURES)
ENTRIES: tuple[Entry, ...] = (*DRAWN, *ROOFLINE_FIGURES)


@dataclass(frozen=True)
class Picture:
    """A picture and what is said of it.

    Attributes:
        id: Which figure it is, e.g. ``"a_fig1"``; those of several GPUs share it.
        caption: One sentence: what it shows, and which source's figure it draws again.
        plate: The picture itself, with its title, subtitle and small print.
    """

    id: str
    caption: str
    plate: Plate

    @property
    def name(self) -> str:
        """Its file name without suffix, one of its own."""
        return self.plate.name

    @property
    def gpu(self) -> str:
        """The driver's name of the GPU whose rows it shows; empty for what no machine changes."""
        return self.plate.gpu

    def render(self) -> Sheet:
        """The picture on a canvas of its own; call it within ``style.theme()``."""
        return self.plate.render()


def pictures(material: Inputs, entries: tuple[Entry, ...] = ENTRIES) -> Iterator[Picture]:
    """All pictures: the sources' figures by source and number, then this project's own."""
    for entry in sorted(entries, key=_place):
        for plate in entry.plates(material.records, material.frame):
            yield Picture(entry.id, entry.caption, plate)


def missing(drawn: Iterable[Picture], entries: tuple[Entry, ...] = ENTRIES) -> list[str]:
    """What each figure that was not ``drawn`` would need, one line a figure."""
    made = {picture.id for picture in drawn}
    return [entry.needs for entry in entries if entry.id not in made]


def _place(entry: Entry) -> int:
    sourced = [e.id for e in ENTRIES if e.id[1:].startswith("_fig")]
    return sorted(sourced).index(entry.id) if entry.id in sourced else len(sourced)
