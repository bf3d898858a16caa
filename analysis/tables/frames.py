"""What tables share: which rows they are of, and a data frame as a table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd

from analysis.figures.style import CACHES
from analysis.format import Table, number_text
from analysis.load import Inputs
from analysis.selection import timer_label

Named = Iterator[tuple[str, Table]]  # the names of files without suffix, and their tables


def joined(values: Iterable[str]) -> str:
    """Distinct texts in one cell of a CSV."""
    return " ".join(sorted(set(values)))


BEHIND = {"keys": ("key", joined), "recordings": ("recording", joined)}  # for ``groupby(…).agg``


def table(
    title: str, frame: pd.DataFrame, notes: Sequence[str] = (), data: pd.DataFrame | None = None
) -> Table:
    """A frame as a table: its columns as they are named, but for the rows behind its lines."""
    shown = frame.drop(columns=[*BEHIND], errors="ignore")
    lines = [[_text(value) for value in line] for line in shown.to_numpy(object)]
    return Table(
        title, [str(name) for name in shown], lines, notes, frame if data is None else data
    )


def _text(value: Any) -> str:
    if isinstance(value, bool | np.bool_):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.2e}" if 0 < abs(value) < 1e-3 else number_text(value)
    return "–" if value is None or value == "" else value if isinstance(value, str) else str(value)


def shown_sets(inputs: Inputs) -> pd.DataFrame:
    """All rows of the sets that figures and the tables of limits are drawn from."""
    sets = {*inputs.main["set"], *(found["set"].iloc[0] for found in inputs.points.values())}
    return inputs.frame[inputs.frame["set"].isin(sets)]


def protocol(timer: str, cache: str) -> str:
    """How times were taken, in words."""
    return f"{timer_label(timer)}, {CACHES.get(cache, cache)}"


def timed(rows: pd.DataFrame) -> pd.Series:
    """Which rows have a time of a known protocol that means something."""
    good = (rows["status"] == "ok") & rows["time_us"].gt(0) & (rows["backend"] != "interpreter")
    good &= rows["rows"].gt(0) & rows["cols"].gt(0)
    return good & rows["timer"].notna() & rows["cache"].notna()
