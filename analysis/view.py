"""The rows one figure draws: one GPU, one fixed size, one dtype, one protocol, never mixed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import pandas as pd

from analysis.points import middle_visits, name_variants
from experiments.data.cards import Card, card_of

# A line never mixes protocols; of those present the first is drawn, cold before warm.
PROTOCOLS = (
    ("events", "cold"),
    ("graph", "cold"),
    ("host", "cold"),
    ("events", "warm"),
    ("graph", "warm"),
    ("host", "warm"),
)
ITEM_BYTES = {"float64": 8, "float32": 4, "float16": 2, "bfloat16": 2}
OTHER_SIDE = {"cols": "rows", "rows": "cols"}


@dataclass(frozen=True)
class Wanted:
    """What a figure would like to draw; the rows may only allow something near it.

    Attributes:
        at: The size that stays fixed: M where the figure runs over N.
        dtype: As rows spell it.
        over: The size along the x axis, ``"cols"`` (N) or ``"rows"`` (M).
        sizes: The sizes of its source along the x axis, used when ``at`` is met; None takes all.
        without: Kernels it leaves out to stay legible; any that nobody foresaw are drawn.
    """

    at: int
    dtype: str
    over: str = "cols"
    sizes: tuple[int, ...] | range | None = None
    without: tuple[str, ...] = ()


@dataclass(frozen=True)
class View:
    """Rows that may share axes.

    Attributes:
        points: One row a variant and size, its middle visit by time; failed points have NaN there.
        recorded: All the rows behind the points.
        gpu: Whose rows they are, as its driver names it.
        card: The same with its datasheet.
        wanted: What was asked for.
        at: The fixed size found.
        dtype: The dtype found.
        timer: How times were taken.
        cache: ``cold`` or ``warm``.
    """

    points: pd.DataFrame
    recorded: pd.DataFrame
    gpu: str
    card: Card
    wanted: Wanted
    at: int
    dtype: str
    timer: str
    cache: str

    @property
    def exact(self) -> bool:
        """Whether it holds the shape and dtype asked for, so that published numbers compare."""
        return (self.at, self.dtype) == (self.wanted.at, self.wanted.dtype)

    @property
    def sizes(self) -> list[int]:
        """The x axis: every size some variant was tried at."""
        return sorted(set(self.points[self.wanted.over].tolist()))

    @property
    def item_bytes(self) -> int:
        """Bytes an element."""
        return ITEM_BYTES[self.dtype]


def view_of(frame: pd.DataFrame, gpu: str, wanted: Wanted) -> View | None:
    """The rows of ``gpu`` nearest to ``wanted``, or None where no two sizes were timed alike.

    First come the dtype and the fixed size asked for, then the protocol, then the most sizes.
    """
    other = OTHER_SIDE[wanted.over]
    # Under Triton's interpreter time means nothing: its rows never come near a speed figure.
    usable = (frame["gpu"] == gpu) & (frame["backend"] != "interpreter")
    usable &= ~frame["kernel"].isin(wanted.without)
    mine = frame[usable & (frame[wanted.over] > 0)]  # an empty matrix is not on a logarithm
    # of a million rows each copy counts: a few columns will do
    timed = mine.loc[
        (mine["status"] == "ok") & mine["time_us"].notna(),
        ["operation", "timer", "cache", "dtype", "rows", "cols"],
    ]
    softmax = timed[timed["operation"] != "copy"]
    candidates: list[tuple[Any, ...]] = []
    for place, group in softmax.groupby(["timer", "cache", "dtype", other]):
        timer, cache, dtype, at = cast(tuple[str, str, str, int], place)
        found = group[wanted.over].nunique()
        if found > 1 and (timer, cache) in PROTOCOLS:
            closeness = (dtype == wanted.dtype, at == wanted.at, -PROTOCOLS.index((timer, cache)))
            candidates.append((*closeness, found, at, dtype, timer, cache))
    if not candidates:
        return None
    *_, at, dtype, timer, cache = max(candidates)
    same = mine[(mine["dtype"] == dtype) & (mine[other] == at)]
    alike = (same["timer"] == timer) & (same["cache"] == cache)
    recorded = same[alike | ~same.index.isin(timed.index)]
    if at == wanted.at and wanted.sizes is not None:
        near = recorded[recorded[wanted.over].isin(wanted.sizes)]
        if near.loc[near.index.isin(softmax.index), wanted.over].nunique() > 1:
            recorded = near
    points = middle_visits(name_variants(recorded), wanted.over)
    return View(points, recorded, gpu, card_of(gpu), wanted, at, dtype, timer, cache)
