"""One tidy frame of points: our kernel beside the public ones and the roof, visit by visit.

A point is a shape and dtype under one protocol on one GPU. A visit is one round of a recording; a
rival's time is divided by ours only within a visit. One kernel of each operation represents this
project; ``by:`` in ``conf/kernel`` says who made the others. Rows of two sets are never mixed: one
set is used for each operation, card and kind of width (tuned or not). Of the sets with `ENOUGH`
points it is the one with the most public kernels, then the one with the most visits. Only this
module defines the mean of ratios, its interval and the share of a roof.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pandas as pd

from analysis import estimate
from analysis.estimate import Estimate, Floats, geometric_mean
from analysis.published import OPERATION
from analysis.selection import TIMER_NAMES, timed, undisturbed
from experiments.data.jobs import OURS, kernel_makers, named_grids
from experiments.data.rows import ITEM_BYTES

ROOF = "roof"
MAKERS = {  # the makers of public kernels, and their names, in the order of tables
    "torch": "PyTorch",
    "compile": "torch.compile",
    "liger": "Liger",
    "flag_gems": "FlagGems",
    "quack": "QuACK",
    "helion": "Helion",
    "flash": "FlashAttention",
    "trl": "TRL",
    "tileops": "TileOPs",
}
TUNED = ("quack", "wide", "small_batch", "batch", "few_wide")  # the grids `auto` was tuned on
SEEN = (1280, 20480, 50257)  # widths of the grid `held_out` that kernels were tuned for later
LARGE_BYTES = 256_000_000  # bytes moved; from here on only memory bandwidth limits
SHORT_US = 25.0  # µs; below, times on an H200 flip between two values half a microsecond apart
ENOUGH = 0.2  # share of the largest set's points that a set needs to be used
SOME_WIDTHS = 5  # an interval over fewer says next to nothing
NEARLY_ALL = 0.9  # share of points that a recording needs to count in an interval over recordings
NEEDS = (
    "timed rows of our kernel beside a public one, such as auto and torch "
    "(make sweep EXPERIMENT=limits)"
)
POINT = ["gpu", "timer", "cache", "rows", "cols", "dtype"]
VISIT = ["recording", "round"]
SPOKEN = ["gpu", "tuned"]  # one set of an operation's rows is used for each of these
NAMED = {  # columns of rows, and their names here
    "time_us": "us",
    "time_low_us": "low_us",
    "time_high_us": "high_us",
    "compulsory_bytes": "bytes",
}
COLUMNS = [
    *("operation", "set", *POINT, *VISIT, "kernel", "role", "by", *NAMED, "samples_us"),
    *("arithmetic_us", "above_roof", "label", "stop_reason", "suspect", "roof", "flops", "tuned"),
]
ENDS = ["ratio", "low", "high"]


@dataclass(frozen=True)
class Mean(Estimate):
    """The mean of many points, with its 95 % interval."""

    points: int = 0
    recordings: int = 1
    units: str = "samples"  # or over what the interval is: ``recordings``, ``widths``, ``rounds``


@cache
def maker(kernel: str) -> str:
    """Who made a kernel: `OURS`, one of `MAKERS`, or empty."""
    return kernel_makers().get(kernel, "")


def peer_order(kernel: str) -> tuple[int, str]:
    """The sort key of public kernels, in the order of tables."""
    return ([*MAKERS, maker(kernel)].index(maker(kernel)), kernel)


def points(frame: pd.DataFrame, operation: str = OPERATION, ours: str = "") -> pd.DataFrame:
    """Every point of an operation at which our kernel and a public one were timed in one visit.

    ``ours`` is the kernel that stands for us; empty for the one that ``conf/kernel`` names.

    Returns:
        A line per point, visit and kernel in the order of tables: `COLUMNS`, renamed by `NAMED`.
        ``role`` is ``ours``, ``peer`` or ``roof``, ``label`` the row's label in ``frame``. Of a
        kernel's settings only the fastest at each visit counts.
    """
    mine = frame["operation"] == operation
    roofs = set(frame.loc[mine, "roof"]) - {operation}
    known = sorted(frame.loc[mine, "kernel"].unique())
    own = ours or next((name for name in known if maker(name) == OURS), "")
    here = frame[mine | frame["operation"].isin(roofs)]
    here = here[timed(here) & here["timer"].isin([*TIMER_NAMES])].dropna(subset="compulsory_bytes")
    mine, by = here["operation"] == operation, here["kernel"].map(maker)
    # an A/A sweep has each kernel under two marked names, which are no rivals
    role = pd.Series("", here.index, dtype=object)
    role[~mine & here["bounds"].eq(True) & ~here["kernel"].str.contains("-")] = ROOF
    role[mine & ~by.isin(["", OURS])] = "peer"
    role[mine & (here["kernel"] == own)] = "ours"
    grids = TUNED if operation == OPERATION else {*named_grids()} - {"tutorial"}
    tuned = here["cols"].isin({*SEEN, *(n for grid in grids for _, n, _ in named_grids()[grid])})
    here = here.assign(role=role, by=by, operation=operation, tuned=tuned, label=here.index)
    here = here.loc[role != "", [*COLUMNS, "settings"]].astype({"compulsory_bytes": "int64"})
    # an edited kernel leaves stale rows before the newest one
    visit = [*POINT, *VISIT]
    here = here.drop_duplicates([*visit, "kernel", "settings"], keep="last")
    here = here.sort_values("time_us", kind="stable").drop_duplicates([*visit, "kernel"])
    roles = here.assign(role=here["role"].mask(here["role"] == ROOF)).groupby(visit)["role"]
    kept = here[roles.transform("nunique") == 2][COLUMNS].rename(columns=NAMED)
    peers, one_set = kept[kept["role"] == "peer"], [*SPOKEN, "set"]
    counts = peers.drop_duplicates([*POINT, "set"]).groupby(one_set).size()
    sets = peers.groupby(one_set)["kernel"].agg(["nunique", "size"])
    sets = sets[counts >= ENOUGH * counts.groupby(SPOKEN).transform("max")]
    sets = sets.sort_values(["nunique", "size"]).groupby(SPOKEN).tail(1)
    best = kept[pd.MultiIndex.from_frame(kept[[*SPOKEN, "set"]]).isin(sets.index)]
    order: dict[Any, list[Any]] = {"timer": [*TIMER_NAMES], "dtype": [*ITEM_BYTES]}
    order |= {"tuned": [True, False], "gpu": [*best["gpu"].value_counts().index]}
    return best.sort_values(
        ["gpu", "timer", "cache", "tuned", "rows", "cols", "dtype", "kernel", *VISIT],
        key=lambda one: one.map(order[one.name].index) if one.name in order else one,
        ignore_index=True,
    )


def all_points(frame: pd.DataFrame, ours: str = "") -> dict[str, pd.DataFrame]:
    """The `points` of each operation that has any, by its name, softmax first.

    ``ours`` represents us in its own operation; in others the kernel of ``conf/kernel`` does.
    """
    found = {}
    for name, own in frame.groupby("operation")["kernel"].unique().items():
        if set(map(maker, own)) - {"", OURS}:
            found[str(name)] = points(frame, str(name), ours if ours in own else "")
    names = sorted(found, key=lambda name: (name != OPERATION, name))
    return {name: found[name] for name in names if len(found[name])}


def groups(found: pd.DataFrame) -> list[pd.DataFrame]:
    """The points split by GPU, timer and cache, and by whether their widths were tuned for."""
    return [one for _, one in found.groupby(["gpu", "timer", "cache", "tuned"], sort=False)]


def pairs(found: pd.DataFrame, over: str = "peers") -> pd.DataFrame:
    """A rival's time and our time in every visit that has both.

    Args:
        found: Points of one operation.
        over: ``peers``: the fastest public kernel at each point; ``roof``: the fastest kernel
            that only moves data; a maker: its fastest kernel; or the name of a kernel.

    Returns:
        A line per point and visit, without suspect visits if a point has others: ``rival_us``,
        ``us`` and their ``ratio``, the rival's name as ``kernel``, the columns of our row, and
        those of the rival's with ``_rival``. ``less`` is the bytes that our operation moves over
        those that the rival's operation moves; it is 1 unless the rival is a roof.
    """
    roof = over == ROOF
    others = found[found["role"] == (ROOF if roof else "peer")]
    if over in set(found["kernel"]):
        others = found[found["kernel"] == over]
    elif over not in (ROOF, "peers"):
        others = others[others["by"] == over]
    columns = [*POINT, *VISIT, "kernel", "us", "samples_us", "bytes", "label", "suspect"]
    mine = found[found["role"] == "ours"]
    both = mine.merge(others[columns], on=[*POINT, *VISIT], suffixes=("", "_rival"))
    both = both.rename(columns={"us_rival": "rival_us", "kernel": "own", "kernel_rival": "kernel"})
    less = both["bytes"] / both["bytes_rival"] if roof else 1.0
    both = both.assign(ratio=both["rival_us"] / both["us"], less=less)
    if both.empty:
        return both
    both = undisturbed(both, [*POINT, "kernel"], "suspect_rival")
    logs = np.log(both["ratio"]).groupby([both[name] for name in (*POINT, "kernel")], sort=False)
    means = logs.mean().reset_index().sort_values("ratio", kind="stable")
    fastest = means.drop_duplicates(POINT)[[*POINT, "kernel"]]
    return both.merge(fastest, on=[*POINT, "kernel"])


def ratios(found: pd.DataFrame, over: str = "peers") -> pd.DataFrame:
    """How many times as fast as a rival ours is, at each point; `pairs` explains ``over``.

    If ``over`` is the roof, it is the share of the roof's bandwidth that ours reaches: if both move
    equal bytes, the roof's time over ours. If arithmetic takes longer than the roof, it is the time
    of the arithmetic over ours.

    Returns:
        A line per point: the first of its `pairs`, with ``ratio``, ``low`` and ``high`` over its
        visits, mean ``us`` and ``rival_us``, ``large``, ``short``, ``name``, ``labels``, ``visits``
        (their names and logarithms, for `geomean`) and ``above_roof``: in most visits ours beats
        the roof by more than its interval, which is no win.
    """
    if over == ROOF:  # if the time of the arithmetic is unknown, the time of moving is no bound
        found = found[~(found["flops"].gt(0) & found["arithmetic_us"].isna())]
    both, by_point = pairs(found, over), dict[Any, list[Any]]()
    logs = np.log(both["rival_us"] * both["less"] / _held_to_roof(found, both))
    for one in both.assign(log=logs).itertuples(index=False):
        by_point.setdefault(tuple(getattr(one, name) for name in POINT), []).append(one)
    names = [*ENDS, "us", "rival_us", "above_roof", "labels", "visits"]
    each = pd.DataFrame((_of_point(visits, over) for visits in by_point.values()), columns=names)
    lines = both.drop_duplicates(POINT).reset_index(drop=True).assign(**each)
    sizes = lines["rows"].astype(str) + "×" + lines["cols"].astype(str)
    return lines.assign(
        large=lines["bytes"] >= LARGE_BYTES,
        short=lines["us"] < SHORT_US,
        name=sizes + " " + lines["dtype"].astype(str),
    )


def _of_point(visits: Sequence[Any], over: str) -> dict[str, Any]:
    """The columns that `ratios` adds, of the lines of `pairs` at one point."""
    own, recordings = [one.samples_us for one in visits], [one.recording for one in visits]
    mean = estimate.of_rounds([one.samples_us_rival for one in visits], own, recordings=recordings)
    ends = [end * visits[0].less for end in (mean.value, mean.low, mean.high)]
    times = [one.arithmetic_us for one in visits]
    if over == ROOF and not pd.isna(times).any():
        us, mean = geometric_mean(times), estimate.of_rounds(own, recordings=recordings)
        if us / mean.value > ends[0]:
            ends = [us / mean.value, us / mean.high, us / mean.low]
    return {
        **dict(zip(ENDS, ends, strict=True)),
        "us": geometric_mean(one.us for one in visits),
        "rival_us": geometric_mean(one.rival_us for one in visits),
        "above_roof": 2 * sum(one.above_roof for one in visits) > len(visits),
        "labels": (*(one.label for one in visits), *(one.label_rival for one in visits)),
        "visits": [(one.recording, one.round, one.log) for one in visits],
    }


def mean_share(each: pd.Series) -> float:
    """The geometric mean of shares of the roof, each at most 1; NaN if there are none."""
    return geometric_mean(each.dropna().clip(upper=1))


def geomean(lines: pd.DataFrame, by_width: bool = False) -> Mean | None:
    """The geometric mean over points, lines of `ratios`, of a rival's time over ours, or None.

    If ours is faster than its roof, the roof's time replaces ours. The interval is over recordings
    that have nearly all points (`NEARLY_ALL`), or over the rounds of a single one. If no two of
    several have them, it is over widths. Otherwise, as for one round, it is the mean of the points'
    own intervals. With ``by_width`` it is over `SOME_WIDTHS` widths or more if that is wider.
    """
    if lines.empty:
        return None
    every = [(i, *visit) for i, visits in enumerate(lines["visits"]) for visit in visits]
    times = pd.DataFrame(every, columns=["point", *VISIT, "log"])
    times["recording"] = _joined_cards(times)
    each = times.groupby("point")[["log"]].mean().assign(cols=lines["cols"].to_numpy())
    value, recordings = math.exp(each["log"].mean()), times["recording"].nunique()
    least = NEARLY_ALL * len(each)
    whole = times[times.groupby("recording")["point"].transform("nunique") >= least]
    count = whole["recording"].nunique()
    whole = whole[whole.groupby("point")["recording"].transform("nunique") == count]
    visits = np.exp(whole.groupby(VISIT)["log"].mean())
    several = len(visits) > 1 and (count > 1 or recordings == 1)
    if several and whole["point"].nunique() >= least:
        mean = estimate.over_recordings([list(one) for _, one in visits.groupby("recording")])
        low, high = mean.low / mean.value, mean.high / mean.value
        units = "recordings" if count > 1 else "rounds"
    else:
        low, high = (geometric_mean(lines[end] / lines["ratio"]) for end in ("low", "high"))
        count, units = recordings, "samples"
    enough = SOME_WIDTHS if by_width else 3 if units == "samples" and recordings > 1 else math.inf
    if each["cols"].nunique() >= enough:
        # jackknife over widths (Efron and Stein 1981): points of one width are not independent
        widths = each.groupby("cols")["log"].agg(["sum", "size"])
        without = (each["log"].sum() - widths["sum"]) / (len(each) - widths["size"])
        error = math.sqrt((len(widths) - 1) * float(without.var(ddof=0)))
        reach = math.exp(float(estimate.quantile(0.025, len(widths) - 1)) * error)
        if not by_width or reach > high:
            low, high, units = 1 / reach, reach, "widths"
    ends = value * low, value * high
    return Mean(value, *ends, points=len(each), recordings=count, units=units)


def _held_to_roof(found: pd.DataFrame, both: pd.DataFrame) -> Floats:
    """Our times, µs; at a point where most visits are above the roof, at least the roof's time."""
    own = both["us"].to_numpy(float)
    above = both.groupby(POINT, sort=False)["above_roof"].transform("mean") > 0.5
    if not above.any():
        return own
    roofs = pairs(found, ROOF)[[*POINT, *VISIT, "rival_us", "less"]]
    held = both[[*POINT, *VISIT]].merge(roofs, how="left")
    return np.where(above, np.fmax(own, held["rival_us"] * held["less"]), own)


def _joined_cards(times: pd.DataFrame) -> pd.Series:
    """The recordings; cards that split the points of one sweep count as one recording."""
    sweep = times["recording"].str.split("/").str[0]
    again = times.assign(_sweep=sweep).duplicated(["_sweep", "point", "round"])
    return times["recording"].where(sweep.isin(sweep[again]), sweep)
