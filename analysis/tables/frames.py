"""The functions that tables share: which rows count, and a data frame as a table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import yaml

from analysis.figures.style import CACHES, variant_order
from analysis.format import Table, joined, number_text
from analysis.selection import timer_label

Named = Iterator[tuple[str, Table]]  # the names of files without suffix, and their tables
NOTES = yaml.safe_load((Path(__file__).parents[1] / "notes.yaml").read_text(encoding="utf-8"))
BEHIND = {"keys": ("key", joined), "recordings": ("recording", joined)}  # for ``groupby(…).agg``


def texts(name: str, **facts: Any) -> list[str]:
    """The sentences below a table, from ``notes.yaml``, filled with facts."""
    return [one.format(**facts) for one in NOTES[name]]


def table(
    title: str, frame: pd.DataFrame, notes: Sequence[str] = (), data: pd.DataFrame | None = None
) -> Table:
    """A frame as a table: its columns as they are named, but for the rows behind its lines."""
    shown = frame.drop(columns=[*BEHIND], errors="ignore")
    lines = [list(map(_text, line)) for line in shown.to_numpy(object)]
    return Table(title, list(map(str, shown)), lines, notes, frame if data is None else data)


def _text(value: Any) -> str:
    if isinstance(value, bool | np.bool_):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.2e}" if 0 < abs(value) < 1e-3 else number_text(value)
    return "–" if value is None or value == "" else value if isinstance(value, str) else str(value)


def by_shape(points: pd.DataFrame) -> pd.DataFrame:
    """The column ``text`` of points with a line per shape and a column per variant."""
    cells = points.set_index(["rows", "cols", "variant"])["text"]  # `pivot` would lose bold ones
    found = cells.unstack("variant").fillna("–")
    names = sorted(map(str, found), key=variant_order)
    found = found[names]
    found.insert(0, "M×N", [f"{m}×{n}" for m, n in found.index])
    return found


def ordered(frame: pd.DataFrame, *columns: str) -> pd.DataFrame:
    """Lines sorted by these columns, then by their variants as figures list them."""
    order = frame.assign(_order=frame["variant"].map(variant_order))
    return frame.loc[order.sort_values([*columns, "_order"], kind="stable").index]


def protocol(timer: str, cache: str) -> str:
    """How times were taken, in words."""
    return f"{timer_label(timer)}, {CACHES.get(cache, cache)}"
