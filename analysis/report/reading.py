"""The points of the pictures as the page's script reads them: where they are, and which row."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from analysis.report.facts import HEADS, facts
from analysis.sheet import Mark

PLACES = 5  # decimals of a share: a hundredth of a pixel of the widest page


@dataclass(frozen=True)
class Readings:
    """Every row that any picture of the page draws, once, and each picture's points.

    Attributes:
        rows: Texts under `HEADS`; points hold indices into it.
        pictures: By anchor, the series: a name and its points (left, top, row).
    """

    rows: list[list[str]] = field(default_factory=list)
    pictures: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    _known: dict[tuple[str, ...], int] = field(default_factory=dict)

    def add(self, anchor: str, marks: Iterable[tuple[tuple[float, float], Mark]]) -> None:
        """Takes up the marks of a picture, each with its place as shares of the picture."""
        series: dict[tuple[int, str], list[list[float]]] = {}
        axes: list[Any] = []
        for place, mark in marks:
            if mark.ax not in axes:
                axes.append(mark.ax)
            told = facts(mark.row)
            points = series.setdefault((axes.index(mark.ax), told[0]), [])
            points.append([*(round(share, PLACES) for share in place), self._index(told)])
        self.pictures[anchor] = [
            {"name": name, "points": sorted(points)} for (_, name), points in series.items()
        ]

    def count(self, anchor: str) -> int:
        """How many points of a picture can be read."""
        return sum(len(series["points"]) for series in self.pictures.get(anchor, []))

    def data(self) -> dict[str, Any]:
        """All of it, for the page's script."""
        return {"heads": list(HEADS), "rows": self.rows, "pictures": self.pictures}

    def _index(self, told: Sequence[str]) -> int:
        place = self._known.setdefault(tuple(told), len(self.rows))
        if place == len(self.rows):
            self.rows.append(list(told))
        return place


def script_json(data: Any) -> str:
    """JSON that may stand inside a script element: no text in it can end the element."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for letter in "<>&\u2028\u2029":
        text = text.replace(letter, f"\\u{ord(letter):04x}")
    return text
