"""The results in short: softmax by kind of shape, each operation in a line, and every part by size.

README, the results page and the report show the first two, so their numbers agree.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pandas as pd

from analysis.figures.style import file_name
from analysis.format import Cell, Table, interval_text, keys_of
from analysis.load import Inputs
from analysis.points import (
    LARGE_BYTES,
    MAKERS,
    PLACE,
    TUNED,
    behind,
    geomean,
    groups,
    maker,
    mean_share,
    ratios,
    shares,
)
from analysis.published import OPERATION
from analysis.selection import timer_label
from analysis.tables.frames import Named, table, texts

LARGE = f"{LARGE_BYTES / 1e6:.0f} MB"
PARTS = {  # by bytes, from and below
    f"{LARGE} and more": (LARGE_BYTES, math.inf),
    "1 GB and more": (1e9, math.inf),
    f"16 MB to {LARGE}": (16e6, LARGE_BYTES),
    "below 16 MB": (0, 16e6),
    "all": (0, math.inf),
}
SPEED, SHARE, SLOWER = "speed / fastest public", "share of the roof", "ours is slower at"


def headline(frame: pd.DataFrame, points: Mapping[str, pd.DataFrame]) -> Table | None:
    """Softmax: ours against the fastest public kernel and a copy; None without such points.

    Args:
        frame: The rows that the points were taken from.
        points: By operation, as `analysis.points.all_points` gives them.
    """
    if OPERATION not in points:
        return None
    found, protocol = points[OPERATION], ["gpu", "timer", "cache"]
    found = found[(found[protocol] == found.iloc[0][protocol]).all(axis=1)]
    large, tuned = found["bytes"] >= LARGE_BYTES, found["tuned"].astype(bool)
    rival = _rival(found[large] if large.any() else found)
    answered, name = _has(found, rival), MAKERS[maker(rival)]
    parts = {
        "large, widths it was tuned for": found[large & tuned],
        f"large, other widths, where {name} answers": found[large & ~tuned & answered],
        f"large, other widths, where {name} fails": found[large & ~tuned & ~answered],
        "small, widths it was tuned for": found[~large & tuned],
        "small, other widths": found[~large & ~tuned],
    }
    lines = [{"shapes": text} | summary(frame, part) for text, part in parts.items() if len(part)]
    data, first = pd.DataFrame(lines), found.iloc[0]
    shown = _texts(data).rename(columns={SHARE: "share of a copy"})
    own = found.loc[found["role"] == "ours", "kernel"].iloc[0]
    where = f"{first['gpu']}, {timer_label(first['timer'])}, {first['cache']} L2"
    notes = texts("headline", where=where, own=own, large=LARGE)
    title = "softmax against the fastest public kernel, and against a copy"
    return table(title, shown.drop(columns="interval over"), notes, data)


def operations(frame: pd.DataFrame, points: Mapping[str, pd.DataFrame]) -> Table | None:
    """Every operation in one line: ours against the fastest public kernel and the roof.

    Large points of the first protocol alone count, or all of an operation that has no large ones.
    """
    lines, more = [], []
    for operation, every in points.items():
        found = groups(every)[0]
        large = found["bytes"] >= LARGE_BYTES
        found = found[large] if large.any() else found
        if not (rival := _rival(found)):
            continue
        failed = geomean(found[~_has(found, rival)])
        arithmetic = found["arithmetic_us"].notna().any()
        roof = "the slowest of three roofs" if arithmetic else found["roof"].iloc[0]
        own = found.loc[found["role"] == "ours", "kernel"].iloc[0]
        lines.append({"operation": operation, "our kernel": own} | summary(frame, found))
        other = f"{failed.value:.2f} at {failed.points}" if failed else "–"
        more.append([MAKERS[maker(rival)], other, f" of {roof}"])
    if not lines:
        return None
    data = pd.DataFrame(lines)
    shown, heads = _texts(data), ["main rival", "speed if it fails", "roof"]
    shown[heads] = pd.DataFrame(more, columns=heads, dtype=object)
    known = shown[SHARE] != "–"
    shown[SHARE] = shown[SHARE].where(~known, shown[SHARE] + shown["roof"])
    shown = shown[["operation", "our kernel", "points", SPEED, *heads[:2], SHARE]]
    return table("Every operation", shown, texts("operations"), data)


def limits_summary(inputs: Inputs) -> Named:
    """Each protocol in few numbers: the large matrices first, all of them last."""
    for operation, found in inputs.points.items():
        lines = []
        for group in groups(found):
            known, timer = ratios(group), timer_label(group["timer"].iloc[0])
            place = {"timer": timer, "widths": widths_of(group)}
            place |= {name: group[name].iloc[0] for name in ("gpu", "cache")}
            for name, (low, high) in PARTS.items():
                part = known[known["bytes"].ge(low) & known["bytes"].lt(high)]
                if len(part):
                    points = group.merge(part[PLACE], on=PLACE)
                    lines.append({"matrices": name} | place | summary(inputs.frame, points))
        order = {name: i for i, name in enumerate(PARTS)}
        lines.sort(key=lambda line: order[line["matrices"]])
        data = pd.DataFrame(lines)
        shown = _texts(data, 3).drop(columns=["gpu", "cache"])
        shown["least share"] = [_percent(share) for share in data["share_least"]]
        notes = texts("limits_summary")
        if operation == OPERATION:
            notes += texts("tuned", grids=", ".join(TUNED))
        title = f"At the limit, in short: {operation}"
        yield file_name("limits_summary", operation), table(title, shown, notes, data)


def summary(frame: pd.DataFrame, found: pd.DataFrame) -> dict[str, Any]:
    """Some points of one operation in one line of numbers, with the rows behind it.

    Returns:
        ``ratio``, ``low`` and ``high`` of `analysis.points.geomean`, the mean and the least share
        of the roof (NaN without one), and at how many points ours is slower, by how much at worst.
    """
    mean, share, lines = geomean(found), mean_share(found), ratios(found)
    assert mean is not None  # a point has a public kernel
    slower = behind(lines).sort_values("ratio")
    worst = slower.iloc[0] if len(slower) else pd.Series({"ratio": math.nan, "name": ""})
    keys, recordings = keys_of(frame, {label for one in lines["labels"] for label in one})
    return {
        **{"points": mean.points, "ratio": mean.value, "low": mean.low, "high": mean.high},
        **{"interval_over": mean.units, "recordings_used": mean.recordings},
        **{
            "share": share.value if share else math.nan,
            "share_least": shares(found)["share"].min(),
        },
        **{"slower": len(slower), "worst": worst["ratio"], "worst_at": worst["name"]},
        **{"keys": keys, "recordings": recordings},
    }


def widths_of(found: pd.DataFrame) -> str:
    """Whether `auto` was tuned at the widths of a group of points; only softmax knows others."""
    if found["operation"].iloc[0] != OPERATION:
        return "all"
    return "tuned" if found["tuned"].iloc[0] else "held out"


def versions(frame: pd.DataFrame, points: Mapping[str, pd.DataFrame]) -> str:
    """The software behind the points in one line, such as ``torch 2.11.0, triton 3.6.0``."""
    labels = sorted({label for found in points.values() for label in found["label"]})
    found: dict[str, set[str]] = {}
    for environment in {id(one): one for one in frame.loc[labels, "environment"]}.values():
        known = {name: environment.get(name) for name in ("torch", "triton", "cuda", "driver")}
        for name, version in (known | (environment.get("packages") or {})).items():
            if version:
                found.setdefault(str(name), set()).add(str(version))
    return ", ".join(f"{name} {' and '.join(sorted(of))}" for name, of in found.items())


def _texts(data: pd.DataFrame, digits: int = 2) -> pd.DataFrame:
    """The lines of `summary` as readers see them, with whatever columns precede the numbers."""
    shown = data.loc[:, :"points"].copy()
    ends = data[["ratio", "low", "high"]].itertuples(index=False)
    speeds = [f"{x:.{digits}f} ({interval_text(low, high, digits)})" for x, low, high in ends]
    shown[SPEED] = pd.Series([Cell(one, strong=True) for one in speeds], dtype=object)
    shown["interval over"] = data["interval_over"]
    shown[SHARE] = list(map(_percent, data["share"]))
    worst = data[["slower", "worst", "worst_at"]].itertuples(index=False)
    shown[SLOWER] = [f"{n}; worst {x:.3f} at {at}" if n else "none" for n, x, at in worst]
    return shown


def _percent(share: float) -> str:
    return "–" if math.isnan(share) else f"{100 * min(share, 1):.1f} %"


def _rival(found: pd.DataFrame) -> str:
    """The public kernel that is the fastest at most points; empty where none has a time."""
    return next(iter(ratios(found)["kernel"].value_counts().index), "")


def _has(found: pd.DataFrame, kernel: str) -> pd.Series:
    """At which lines the point has a time of a kernel."""
    timed = pd.MultiIndex.from_frame(found.loc[found["kernel"] == kernel, PLACE])
    return pd.Series(pd.MultiIndex.from_frame(found[PLACE]).isin(timed), found.index)
