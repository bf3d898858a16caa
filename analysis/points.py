"""One tidy frame of points: our kernel beside the public ones and the roof, visit by visit.

A point is a shape and dtype under one protocol on one GPU. At a point a rival's time stands over
ours in the same visit, which is a round of a recording. One kernel of each operation stands for
this project; ``by:`` in ``conf/kernel`` says who made the others. Rows of two sets are never mixed:
of each operation and card, for tuned widths and for others, the set with most public kernels
counts, of those with `ENOUGH` points, and where several have as many, the one with most points.
The mean of ratios, its interval and the share of a roof are defined here, once.
"""

import math
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pandas as pd

from analysis import estimate
from analysis.estimate import Estimate, Floats, geometric_mean
from analysis.published import OPERATION
from analysis.selection import TIMERS, timed, undisturbed
from experiments.data.jobs import OURS, kernel_makers, named_grids
from experiments.data.rows import ITEM_BYTES

ROOF = "roof"
MAKERS = {  # and their names, as tables list them
    "torch": "PyTorch",
    "compile": "torch.compile",
    "liger": "Liger",
    "flag_gems": "FlagGems",
    "quack": "QuACK",
    "helion": "Helion",
    "flash": "FlashAttention",
    "trl": "TRL",
}
TUNED = ("quack", "wide", "small_batch", "batch", "few_wide")  # the grids `auto` was tuned on
SEEN = (1280, 20480, 50257)  # widths of `held_out` that kernels were changed for since
LARGE_BYTES = 256_000_000  # moved: from here on memory alone decides
SHORT_US = 25.0  # below, an H200 flips every kernel between two values half a microsecond apart
ENOUGH = 0.2  # of the points of the set with most, for a set to speak for a card
NEARLY_ALL = 0.9  # of the points, which each recording has where recordings are the unit
NEEDS = (
    "timed rows of our kernel beside a public one, such as auto and torch "
    "(make sweep EXPERIMENT=limits)"
)
PLACE = ["gpu", "timer", "cache", "rows", "cols", "dtype"]
VISIT = ["recording", "round"]
SPOKEN = ["gpu", "tuned"]  # what one set of an operation's rows speaks for
NAMED = {  # what columns of rows are called here
    "time_us": "us",
    "time_low_us": "low_us",
    "time_high_us": "high_us",
    "compulsory_bytes": "bytes",
}
COLUMNS = [
    *("operation", "set", *PLACE, *VISIT, "kernel", "role", "by", *NAMED, "samples_us"),
    *("arithmetic_us", "above_roof", "label", "stop_reason", "suspect", "roof", "flops", "tuned"),
]
ENDS = ["ratio", "low", "high"]


@dataclass(frozen=True)
class Mean(Estimate):
    """One number of many points, with its 95 % interval."""

    points: int = 0
    recordings: int = 1
    units: str = "samples"  # or what the interval is over: ``recordings``, ``widths``, ``rounds``


@cache
def maker(kernel: str) -> str:
    """Who made a kernel: `OURS`, one of `MAKERS`, or empty."""
    return kernel_makers().get(kernel, "")


def peer_order(kernel: str) -> tuple[int, str]:
    """Sorts public kernels as tables list them."""
    return ([*MAKERS, maker(kernel)].index(maker(kernel)), kernel)


def points(frame: pd.DataFrame, operation: str = OPERATION, ours: str = "") -> pd.DataFrame:
    """Every point of an operation at which our kernel and a public one were timed in one visit.

    ``ours`` is the kernel that stands for us; empty for the one that ``conf/kernel`` names.

    Returns:
        A line per place, visit and kernel in the order of tables: `COLUMNS` with the names of
        `NAMED`. ``role`` is ``ours``, ``peer`` or ``roof``, ``label`` the row's label in ``frame``.
        Of a kernel with several settings the fastest counts.
    """
    mine = frame["operation"] == operation
    roofs = set(frame.loc[mine, "roof"]) - {operation}
    known = sorted(frame.loc[mine, "kernel"].unique())
    own = ours or next((name for name in known if maker(name) == OURS), "")
    by = frame["kernel"].map(maker)
    # an A/A sweep has each kernel under two names with a mark, which are no rivals
    role = pd.Series("", frame.index, dtype=object)
    bounds = frame["bounds"].eq(True) & ~frame["kernel"].str.contains("-")
    role[frame["operation"].isin(roofs) & bounds] = ROOF
    role[mine & ~by.isin(["", OURS])] = "peer"
    role[mine & (frame["kernel"] == own)] = "ours"
    here = frame.assign(role=role, by=by, operation=operation)
    here = here[timed(frame) & (role != "") & frame["timer"].isin(list(TIMERS))]
    here = here.dropna(subset="compulsory_bytes").rename_axis("label").reset_index()
    grids = TUNED if operation == OPERATION else {*named_grids()} - {"tutorial"}
    tuned = {*SEEN, *(n for grid in grids for _, n, _ in named_grids()[grid])}
    here = here.assign(tuned=here["cols"].isin(tuned)).astype({"compulsory_bytes": "int64"})
    # a kernel edited since leaves stale rows before the newest one
    visit = [*PLACE, *VISIT]
    here = here.drop_duplicates([*visit, "kernel", "settings"], keep="last")
    here = here.sort_values("time_us", kind="stable").drop_duplicates([*visit, "kernel"])
    roles = here.groupby(visit)["role"]
    both = roles.transform(lambda found: {"ours", "peer"} <= set(found)).astype(bool)
    kept = (here[both] if len(here) else here)[COLUMNS].rename(columns=NAMED)
    peers = kept[kept["role"] == "peer"].drop_duplicates([*PLACE, "set", "kernel"])
    sets = peers.groupby([*SPOKEN, "set"])["kernel"].agg(["nunique", "size"])
    sets = sets.assign(places=sets["size"] / sets["nunique"])
    sets = sets[sets["places"] >= ENOUGH * sets.groupby(SPOKEN)["places"].transform("max")]
    sets = sets.sort_values(["nunique", "places"]).groupby(SPOKEN).tail(1)
    best = kept[pd.MultiIndex.from_frame(kept[[*SPOKEN, "set"]]).isin(sets.index)]
    order: dict[Any, list[Any]] = {"timer": [*TIMERS], "dtype": [*ITEM_BYTES]}
    order |= {"tuned": [True, False], "gpu": [*best["gpu"].value_counts().index]}
    return best.sort_values(
        ["gpu", "timer", "cache", "tuned", "rows", "cols", "dtype", "kernel", *VISIT],
        key=lambda one: one.map(order[one.name].index) if one.name in order else one,
        ignore_index=True,
    )


def all_points(frame: pd.DataFrame, ours: str = "") -> dict[str, pd.DataFrame]:
    """By operation the `points` of each that has any, softmax first.

    ``ours`` is a kernel that stands for us in its operation.
    """
    found = {}
    for name, own in frame.groupby("operation")["kernel"].unique().items():
        if set(map(maker, own)) - {"", OURS}:
            found[str(name)] = points(frame, str(name), ours if ours in own else "")
    names = sorted(found, key=lambda name: (name != OPERATION, name))
    return {name: found[name] for name in names if len(found[name])}


def groups(found: pd.DataFrame) -> list[pd.DataFrame]:
    """The points of each GPU, timer and cache, tuned widths apart from those held out."""
    return [one for _, one in found.groupby(["gpu", "timer", "cache", "tuned"], sort=False)]


def pairs(found: pd.DataFrame, over: str = "peers") -> pd.DataFrame:
    """A rival's time and ours in every visit that both share.

    Args:
        found: Points of one operation.
        over: ``peers`` for the fastest public kernel at each place, ``roof`` for the fastest
            kernel that only moves, a maker for the fastest of that one's, or a kernel.

    Returns:
        A line per place and visit, without suspect visits where a place has others: ``rival_us``,
        ``us`` and their ``ratio``, the rival's name as ``kernel``, the columns of our row, and
        those of the rival's with ``_rival``. ``less`` is the bytes that the operation moves over
        those that the rival's operation moves: 1 but for a roof.
    """
    roof = over == ROOF
    others = found[found["role"] == (ROOF if roof else "peer")]
    if over in set(found["kernel"]):
        others = found[found["kernel"] == over]
    elif over not in (ROOF, "peers"):
        others = others[others["by"] == over]
    columns = [*PLACE, *VISIT, "kernel", "us", "low_us", "high_us"]
    columns += ["samples_us", "bytes", "label", "suspect"]
    mine = found[found["role"] == "ours"]
    both = mine.merge(others[columns], on=[*PLACE, *VISIT], suffixes=("", "_rival"))
    both = both.rename(columns={"us_rival": "rival_us", "kernel": "own", "kernel_rival": "kernel"})
    less = both["bytes"] / both["bytes_rival"] if roof else 1.0
    both = both.assign(ratio=both["rival_us"] / both["us"], less=less)
    if both.empty:
        return both
    both = undisturbed(both, [*PLACE, "kernel"], "suspect_rival")
    logs = np.log(both["ratio"]).groupby([both[name] for name in (*PLACE, "kernel")], sort=False)
    means = logs.mean().reset_index().sort_values("ratio", kind="stable")
    fastest = means.drop_duplicates(PLACE)[[*PLACE, "kernel"]]
    return both.merge(fastest, on=[*PLACE, "kernel"])


def ratios(found: pd.DataFrame, over: str = "peers") -> pd.DataFrame:
    """How many times as fast ours is as a rival at each place; `pairs` says which rival.

    Returns:
        A line per place: the first of its `pairs`, with ``ratio``, ``low`` and ``high`` over its
        visits, mean ``us`` and ``rival_us``, ``large``, ``short``, ``above_roof`` (ours beats the
        roof by more than its interval in most visits: never a win), ``name``, and its ``labels``.
    """
    both, each = pairs(found, over), list[dict[str, Any]]()
    for _, one in both.groupby(PLACE, sort=False):
        times = one["samples_us_rival"].tolist(), one["samples_us"].tolist()
        mean = estimate.of_rounds(*times, recordings=list(one["recording"]))
        each.append(
            dict(zip(ENDS, (mean.value, mean.low, mean.high), strict=True))
            | {name: geometric_mean(one[name]) for name in ("us", "rival_us")}
            | {"above_roof": bool(one["above_roof"].mean() > 0.5)}
            | {"labels": tuple(map(int, [*one["label"], *one["label_rival"]]))}
        )
    names = [*ENDS, "us", "rival_us", "above_roof", "labels"]
    lines = both.drop_duplicates(PLACE).reset_index(drop=True)
    lines = lines.assign(**pd.DataFrame(each, columns=names))
    sizes = lines["rows"].astype(str) + "×" + lines["cols"].astype(str)
    return lines.assign(
        large=lines["bytes"] >= LARGE_BYTES,
        short=lines["us"] < SHORT_US,
        name=sizes + " " + lines["dtype"].astype(str),
    )


def shares(found: pd.DataFrame) -> pd.DataFrame:
    """The share of the roof's bandwidth that ours reaches at each place that has a roof.

    Of equal bytes that is the roof's time over ours. Where arithmetic alone takes longer than the
    roof, it is the time of that arithmetic over ours.

    Returns:
        A line per place like `ratios`; ``ratio``, which is ``share`` too, ``low`` and ``high`` are
        shares, not percent.
    """
    # the time of moving bounds nothing where arithmetic takes longer and nobody timed that
    found = found[~(found["flops"].gt(0) & found["arithmetic_us"].isna())]
    lines = ratios(found, ROOF)
    lines[ENDS] = lines[ENDS].mul(lines["less"], axis=0)
    places = pairs(found, ROOF).groupby(PLACE, sort=False)
    for at, share, (_, one) in zip(lines.index, lines["ratio"], places, strict=True):
        if one["arithmetic_us"].notna().all():
            us = geometric_mean(one["arithmetic_us"])
            samples, recordings = one["samples_us"].tolist(), one["recording"].tolist()
            own = estimate.of_rounds(samples, recordings=recordings)
            if us / own.value > share:
                lines.loc[at, ENDS] = [us / own.value, us / own.high, us / own.low]
    return lines.assign(share=lines["ratio"])


def mean_share(each: pd.Series) -> float:
    """The geometric mean of shares of the roof, one above it counted as 1; NaN of none."""
    return geometric_mean(each.dropna().clip(upper=1))


def geomean(found: pd.DataFrame, over: str = "peers") -> Mean | None:
    """The geometric mean of a rival's times over ours at all points; None where it has none.

    A time of ours above the roof is no win: in a mean the roof's time replaces it. The interval is
    over what was averaged. Its unit is the recording where every recording has these points, nine
    tenths of them at least; where recordings drew widths of their own it is the width; of one
    recording with several rounds it is the round. Of a single round the interval is what the ends
    of the points' own intervals give.
    """
    both = pairs(found, over)
    if both.empty:
        return None
    logs = np.log(both["rival_us"] * both["less"] / _held_to_roof(found, both))
    point = both.groupby(PLACE, sort=False).ngroup()
    times = both.assign(log=logs, point=point, recording=_joined_cards(both))
    each = times.groupby("point").agg({"log": "mean", "cols": "first", "recording": "nunique"})
    value, recordings = math.exp(each["log"].mean()), times["recording"].nunique()
    everywhere = each.index[each["recording"] == recordings]
    if times.groupby(VISIT).ngroups > 1 and len(everywhere) >= NEARLY_ALL * len(each):
        whole = times[times["point"].isin(everywhere)]
        visits = np.exp(whole.groupby(VISIT)["log"].mean())
        mean = estimate.over_recordings([list(one) for _, one in visits.groupby("recording")])
        low, high = mean.low / mean.value, mean.high / mean.value
        units = "recordings" if recordings > 1 else "rounds"
    elif each["cols"].nunique() > 2 and recordings > 1:
        # the jackknife (Efron and Stein 1981) leaves out each width in turn: points of one width
        # share what is good or bad about it
        widths = each.groupby("cols")["log"].agg(["sum", "size"])
        without = (each["log"].sum() - widths["sum"]) / (len(each) - widths["size"])
        error = math.sqrt((len(widths) - 1) * float(without.var(ddof=0)))
        high = math.exp(float(estimate.quantile(0.025, len(widths) - 1)) * error)
        low, units = 1 / high, "widths"
    else:
        lines, units = ratios(found, over), "samples"
        low, high = (geometric_mean(lines[end] / lines["ratio"]) for end in ("low", "high"))
    ends = value * low, value * high
    return Mean(value, *ends, points=len(each), recordings=recordings, units=units)


def _held_to_roof(found: pd.DataFrame, both: pd.DataFrame) -> Floats:
    """Our times, µs, but where most visits are above the roof the roof's time for its bytes."""
    own = both["us"].to_numpy(float)
    above = both.groupby(PLACE, sort=False)["above_roof"].transform("mean") > 0.5
    if not above.any():
        return own
    roofs = pairs(found, ROOF)[[*PLACE, *VISIT, "rival_us", "less"]]
    held = both[[*PLACE, *VISIT]].merge(roofs, how="left")
    return np.where(above, np.fmax(own, held["rival_us"] * held["less"]), own)


def _joined_cards(both: pd.DataFrame) -> pd.Series:
    """The recordings; cards that shared the points of one sweep made one of them together."""
    sweep = both["recording"].str.split("/").str[0]
    again = both.assign(_sweep=sweep).duplicated(["_sweep", *PLACE, "round"])
    return both["recording"].where(sweep.isin(sweep[again]), sweep)
