"""The rows one figure draws: one GPU, one fixed size, one dtype, one protocol, never mixed."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pandas as pd

from analysis.published import OPERATION
from experiments.data.rows import ITEM_BYTES

# Timers and their names on pages, in the order in which figures prefer them.
TIMER_NAMES = {
    "events": "CUDA events",
    "chain": "graph in a chain",
    "graph": "graph after itself",
    "host": "host clock",
}
# Timer and cache in the order in which figures prefer them. A line never mixes protocols.
PROTOCOLS = tuple((timer, cache) for cache in ("cold", "warm") for timer in TIMER_NAMES)
SOURCED = (  # the variants that the sources describe, and what they compare them with
    *("naive", "naive_script", "torch", "three_pass", "fused", "fused_row"),
    *("hybrid", "hybrid_whole", "hybrid_capped", "online"),
)


@dataclass(frozen=True)
class Query:
    """The rows that a figure asks for; a sweep may only have similar ones."""

    at: int  # the size that stays fixed: M where the figure runs over N
    dtype: str
    over: str = "cols"  # the size along the x axis; ``"rows"`` is M
    sizes: tuple[int, ...] | range | None = None  # the source's; used if rows have ``at``
    without: tuple[str, ...] = ()  # kernels left out to stay legible; others are drawn
    operation: str = OPERATION  # drawn together with the operation that is its roof


@dataclass(frozen=True)
class Selection:
    """Rows that one figure may draw together."""

    recorded: pd.DataFrame
    gpu: str  # as its driver names it
    query: Query  # what was asked for
    at: int  # the fixed size found
    dtype: str
    timer: str
    cache: str

    @cached_property
    def points(self) -> pd.DataFrame:
        """One row per variant and size: the visit of median time, or the first if all failed."""
        return middle_visits(name_variants(self.recorded))

    @property
    def exact(self) -> bool:
        """Whether its fixed size and dtype are as asked, so that published numbers compare."""
        return (self.at, self.dtype) == (self.query.at, self.query.dtype)

    @property
    def own(self) -> pd.DataFrame:
        """The points of the operation itself, without its roof's."""
        return self.points.loc[self.points["operation"] == self.query.operation]

    @property
    def passes(self) -> int:
        """How often the matrix has to be moved: 2 if it is read and written once, 0 if unknown."""
        own = self.own
        each = own["compulsory_bytes"] / (own["rows"] * own["cols"] * ITEM_BYTES[self.dtype])
        return round(each.median()) if each.median() > 0 else 0

    @property
    def moved(self) -> int:
        """The bytes that have to be moved per unit of the size on the x axis; 0 if unknown."""
        return self.passes * self.at * ITEM_BYTES[self.dtype]

    @property
    def sizes(self) -> list[int]:
        """The x axis: every size some variant was tried at."""
        return sorted(set(self.points[self.query.over].tolist()))


def timed(rows: pd.DataFrame) -> pd.Series:
    """Which rows have a meaningful time, under a known protocol.

    Times of Triton's interpreter mean nothing, and an empty matrix takes no time.
    """
    good = (rows["status"] == "ok") & rows["time_us"].gt(0) & (rows["backend"] != "interpreter")
    good &= rows["rows"].gt(0) & rows["cols"].gt(0)
    return good & rows["timer"].notna() & rows["cache"].notna()


def undisturbed(rows: pd.DataFrame, point: Sequence[str], *others: str) -> pd.DataFrame:
    """The rows without suspect ones; a point whose rows are all suspect keeps them.

    Older rows may be suspect for a trend or two modes of their samples. That says nothing about the
    card and does not count. ``others`` are more columns like ``suspect``, such as a rival's.
    """
    weak = pd.Series(False, rows.index)
    for name in ("suspect", *others):
        kinds = rows[name].map(lambda reasons: {one.partition(":")[0] for one in reasons})
        weak |= kinds.map(lambda found: bool(found - {"trend", "modes"})).astype(bool)
    alone = weak.groupby([rows[name] for name in point]).transform("all")
    return rows[~weak | alone.astype(bool)]


def select(frame: pd.DataFrame, gpu: str, query: Query) -> Selection | None:
    """The rows of ``gpu`` nearest to ``query``, or None if no protocol timed two sizes.

    It prefers, in this order, the dtype asked for, the fixed size, the first protocol, most sizes.
    """
    other = "rows" if query.over == "cols" else "cols"
    usable = (frame["gpu"] == gpu) & (frame["backend"] != "interpreter")
    usable &= ~frame["kernel"].isin(query.without) & (frame[query.over] > 0)  # log axes have no 0
    asked = frame["operation"] == query.operation
    roofs = frame.loc[usable & asked, "roof"].unique()
    mine = frame[usable & (asked | frame["operation"].isin(roofs))]

    def counting(rows: pd.DataFrame) -> pd.DataFrame:
        return rows[timed(rows) & (rows["operation"] == query.operation)]

    place = ["timer", "cache", "dtype", other]
    counts: dict[Any, int] = counting(mine).groupby(place)[query.over].nunique().to_dict()
    known = [one for one, count in counts.items() if count > 1 and one[:2] in PROTOCOLS]

    def worth(one: tuple[str, str, str, int]) -> tuple[Any, ...]:
        timer, cache, dtype, at = one
        first = -PROTOCOLS.index((timer, cache))
        return dtype == query.dtype, at == query.at, first, counts[one], at, dtype

    if not known:
        return None
    timer, cache, dtype, at = max(known, key=worth)
    same = mine[(mine["dtype"] == dtype) & (mine[other] == at)]
    recorded = same[~timed(same) | (same["timer"].eq(timer) & same["cache"].eq(cache))]
    if at == query.at and query.sizes is not None:
        near = recorded[recorded[query.over].isin(query.sizes)]
        recorded = near if counting(near)[query.over].nunique() > 1 else recorded
    recorded = one_sweep(recorded, counting(recorded))
    return Selection(recorded, gpu, query, at, dtype, timer, cache)


def one_sweep(rows: pd.DataFrame, own: pd.DataFrame) -> pd.DataFrame:
    """The rows of the sweep that timed the most of the sources' variants, then the most rows.

    ``own`` are the timed rows of the operation drawn. A source's variant that this sweep did not
    time comes from another sweep that did; all other rows are of this sweep.
    """
    counts = own.assign(_sourced=own["kernel"].where(own["kernel"].isin(SOURCED)))
    found = counts.groupby("sweep").agg(sourced=("_sourced", "nunique"), times=("kernel", "size"))
    order = found.reset_index().sort_values(["sourced", "times", "sweep"])["sweep"].tolist()[::-1]
    kept: pd.Series = rows["sweep"] == order[0]
    lacking = set(SOURCED)
    for sweep in order:
        mine = (rows["sweep"] == sweep) & rows["kernel"].isin(lacking)
        kept |= mine
        lacking -= set(own.loc[own["sweep"] == sweep, "kernel"])
    return rows.loc[kept]


def _flat(params: Mapping[str, Any]) -> dict[str, Any]:
    """The tunables, with nested ones flattened to names like ``options.block``."""
    flat = dict[str, Any]()
    for name, value in params.items():
        own = value.items() if isinstance(value, Mapping) else ()
        flat |= {f"{name}.{key}": one for key, one in own} if own else {name: value}
    return flat


def name_variants(frame: pd.DataFrame) -> pd.DataFrame:
    """Adds ``variant``: the kernel's name, with the tunables that distinguish its settings."""
    names = pd.Series(index=frame.index, dtype=object)
    # two operations may each have a kernel of one name
    for (_, kernel), given in frame.groupby(["operation", "kernel"])[["settings", "params"]]:
        # a function's options are a mapping of their own
        every = dict(zip(given["settings"], given["params"].map(_flat), strict=True))
        keys = sorted({key for params in every.values() for key in params})
        # not named: a tunable missing in older rows, or None, which lets the kernel choose
        varying = [k for k in keys if len({json.dumps(p[k]) for p in every.values() if k in p}) > 1]
        named = {
            text: " ".join([str(kernel), *(f"{k}={p[k]}" for k in varying if p.get(k) is not None)])
            for text, p in every.items()
        }
        names[given.index] = given["settings"].map(named)
    return frame.assign(variant=names)


def middle_visits(frame: pd.DataFrame) -> pd.DataFrame:
    """One row per variant and shape: that of median time, with the widest interval of all visits.

    It is a recorded row, not an average of GB/s, so all its columns belong together.
    """
    visit = ["sweep", "operation", "variant", "rows", "cols", "card", "round"]
    # An edited kernel or an updated library leaves stale rows before the newest one.
    newest = frame.drop_duplicates(visit, keep="last").reset_index(drop=True)
    point = ["operation", "variant", "rows", "cols"]
    good = undisturbed(newest[timed(newest)], point).sort_values("time_us", kind="stable")
    groups = good.groupby(point)
    by = [good[name] for name in point]
    low, high = (
        good[end].fillna(good["time_us"]).groupby(by) for end in ("time_low_us", "time_high_us")
    )
    newest["time_low_us"] = low.transform("min").combine_first(newest["time_low_us"])
    newest["time_high_us"] = high.transform("max").combine_first(newest["time_high_us"])
    middle = good.index[groups.cumcount() == (groups["time_us"].transform("size") - 1) // 2]
    kept = newest.loc[[*middle, *newest.index]].drop_duplicates(point)
    return kept.sort_values(point, ignore_index=True)
