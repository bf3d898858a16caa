"""The rows one figure draws: one GPU, one fixed size, one dtype, one protocol, never mixed."""

from __future__ import annotations

import json
from dataclasses import dataclass

import pandas as pd

from analysis.cards import Card, card_of

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
    """

    at: int
    dtype: str
    over: str = "cols"
    sizes: tuple[int, ...] | range | None = None


@dataclass(frozen=True)
class View:
    """Rows that may share axes.

    Attributes:
        points: One row a variant and size, its middle visit by time; failed points have NaN there.
        recorded: All the rows behind the points.
        card: Whose rows they are.
        wanted: What was asked for.
        at: The fixed size found.
        dtype: The dtype found.
        timer: How times were taken.
        cache: ``cold`` or ``warm``.
    """

    points: pd.DataFrame
    recorded: pd.DataFrame
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
    mine = frame[(frame["gpu"] == gpu) & (frame["backend"] != "interpreter")]
    timed = mine[(mine["status"] == "ok") & mine["time_us"].notna()]
    softmax = timed[timed["operation"] != "copy"]
    best: tuple[object, ...] | None = None
    for (timer, cache, dtype, at), group in softmax.groupby(["timer", "cache", "dtype", other]):
        found = group[wanted.over].nunique()
        if found < 2 or (timer, cache) not in PROTOCOLS:
            continue
        rank = -PROTOCOLS.index((timer, cache))
        score = (dtype == wanted.dtype, at == wanted.at, rank, found, at, dtype)
        best = max(best, (score, timer, cache, dtype, at)) if best else (score, timer, cache, dtype, at)
    if best is None:
        return None
    _, timer, cache, dtype, at = best
    same = mine[(mine["dtype"] == dtype) & (mine[other] == at)]
    alike = (same["timer"] == timer) & (same["cache"] == cache)
    recorded = same[alike | ~same.index.isin(timed.index)]
    if at == wanted.at and wanted.sizes is not None:
        near = recorded[recorded[wanted.over].isin(wanted.sizes)]
        recorded = near if near.loc[near.index.isin(softmax.index), wanted.over].nunique() > 1 else recorded
    points = middle_visits(name_variants(recorded), wanted.over)
    return View(points, recorded, card_of(gpu), wanted, at, dtype, timer, cache)


def name_variants(frame: pd.DataFrame) -> pd.DataFrame:
    """Adds ``variant``: the kernel's name, with the tunables that tell its settings apart."""
    names = pd.Series(index=frame.index, dtype=object)
    for kernel, group in frame.groupby("kernel"):
        settings = [dict(p) for p in group["params"]]
        keys = sorted({key for params in settings for key in params})
        telling = [k for k in keys if len({json.dumps(p.get(k)) for p in settings}) > 1]
        names[group.index] = [
            " ".join([str(kernel), *(f"{k}={p.get(k)}" for k in telling)]) for p in settings
        ]
    return frame.assign(variant=names)


def middle_visits(frame: pd.DataFrame, over: str) -> pd.DataFrame:
    """One row a variant and size: the middle one by time, with the widest interval of all visits.

    A recorded row is taken whole, never an average of GB/s, so all its columns belong together.
    """
    visit = ["sweep", "operation", "variant", "rows", "cols", "card", "round"]
    # A kernel edited or a library updated since leaves stale rows before the newest one.
    newest = frame.drop_duplicates(visit, keep="last")
    kept = []
    for _, visits in newest.groupby(["operation", "variant", over], sort=True):
        timed = visits[(visits["status"] == "ok") & visits["time_us"].notna()]
        if timed.empty:
            kept.append(visits.iloc[:1])
            continue
        middle = timed.sort_values("time_us", kind="stable").iloc[[(len(timed) - 1) // 2]]
        low = timed["time_low_us"].fillna(timed["time_us"]).min()
        high = timed["time_high_us"].fillna(timed["time_us"]).max()
        kept.append(middle.assign(time_low_us=low, time_high_us=high))
    return pd.concat(kept, ignore_index=True)
