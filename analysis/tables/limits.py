"""How near our kernel is to the limit: each shape, and in short."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from analysis import points as limit
from analysis.estimate import geometric_mean
from analysis.figures.limits import file_of, times_of
from analysis.figures.style import file_name, variant_order
from analysis.format import Cell, Table, interval_text, keys_of, number_text
from analysis.load import Inputs
from analysis.points import LARGE_BYTES, PLACE, SHORT_US
from analysis.published import OPERATION
from analysis.selection import records_of, timer_label
from analysis.tables.frames import Named, protocol, table
from experiments.data.cards import card_of
from experiments.data.statistics import unconverged

LARGE = f"{LARGE_BYTES / 1e6:.0f} MB"
PARTS = {  # by bytes, from and below; the headline first
    f"{LARGE} and more": (LARGE_BYTES, math.inf),
    "1 GB and more": (1e9, math.inf),
    f"16 MB to {LARGE}": (16e6, LARGE_BYTES),
    "below 16 MB": (0, 16e6),
    "all": (0, math.inf),
}
TIMES = (
    "Times in µs: geometric means of the rounds' medians. Bold: the fastest. × fastest public, × "
    "torch: its time over ours in the same round, the first with its 95 % interval. MB: what any "
    "kernel of the operation moves. Of roof: the time of the fastest kernel that only moves over "
    "ours, for equal bytes; where arithmetic alone takes longer, the time of that arithmetic.",
    f"~ below {SHORT_US:g} µs, where timers step by half a microsecond. ! above the roof by more "
    "than its interval: no win. A word in place of a time says why there is none.",
)
SHORT = (
    "× fastest public: how many times as long as ours the fastest public kernel takes, as a "
    "geometric mean over the shapes, with a 95 % interval. Interval over: what was repeated, which "
    "is recordings, or widths where recordings drew widths of their own. Behind: shapes at which "
    "the whole interval says that ours is slower, and by how much. Share of the roof: the "
    "geometric mean of the shapes, and the least. Where ours is above the roof, the roof's time "
    "counts in the means.",
    f"Tuned: widths of the grids {', '.join(limit.TUNED)}, on which auto was tuned; all others are "
    "held out.",
)


def limits(inputs: Inputs) -> Named:
    """At every shape each public kernel's time, ours and the roof's, softmax first."""
    for found in inputs.points.values():
        failures = limit.failures(inputs.frame, found)
        for group in limit.groups(found):
            yield file_of("limits", group), _shapes(inputs.frame, group, failures)


def _shapes(frame: pd.DataFrame, group: pd.DataFrame, failures: Mapping[Any, Any]) -> Table:
    """A line per place of one group."""
    first, lines = group.iloc[0], limit.ratios(group)
    own, role = lines["own"].iloc[0], group.drop_duplicates("kernel").set_index("kernel")["role"]
    at = lines[["gpu", "rows", "cols", "dtype"]].itertuples(index=False, name=None)
    failed = [failures.get(place, {}) for place in at]
    peers = {*role.index[role == "peer"], *(name for one in failed for name in one)}
    roofs = sorted(role.index[role == "roof"], key=variant_order)
    names = [*roofs, *sorted(peers, key=limit.peer_order), own]
    data = _numbers(group, lines.set_index(PLACE), names).reset_index()
    data["failed"] = ["; ".join(f"{name}: {how}" for name, how in one.items()) for one in failed]
    behind = [keys_of(frame, labels) for labels in lines["labels"]]
    data["keys"], data["recordings"] = zip(*behind, strict=True)
    fastest = data[[f"{name}_us" for name in names if name not in roofs]].min(axis=1)
    times = {
        name: pd.Series([
            how.get(name) or Cell(number_text(us), name not in roofs and us == least)
            for us, least, how in zip(data[f"{name}_us"], fastest, failed, strict=True)
        ], dtype=object)
        for name in names
    }  # fmt: skip
    shares = ["–" if pd.isna(one) else f"{100 * one:.1f} %" for one in data["roof_ratio"]]
    texts = pd.DataFrame(
        {
            "M×N": data["rows"].astype(str) + "×" + data["cols"].astype(str),
            "dtype": data["dtype"],
            "MB": data["moved_bytes"] / 1e6,
            **times,
            "fastest public": data["best_peer"],
            "× fastest public": data["best_ratio"].map("{:.3f}".format)
            + lines["short"].map("~".__mul__),
            "95 %": [
                interval_text(low, high, 3)
                for low, high in zip(data["best_low"], data["best_high"], strict=True)
            ],
            "× torch": [number_text(one, 2) for one in data["torch_ratio"]],
            "of roof": shares + lines["above_roof"].map("!".__mul__),
        }
    )
    late = int(group["stop_reason"].map(unconverged).ne("").sum())
    ended = f"{late:,} of {len(group):,} times stopped before they were as precise as asked."
    where = [first["operation"], card_of(first["gpu"]).name]
    where += [protocol(first["timer"], first["cache"]), f"{widths_of(group)} widths"]
    title = f"At the limit: {', '.join(where)}"
    return table(title, texts, [*TIMES, ended], data)


def _numbers(group: pd.DataFrame, lines: pd.DataFrame, names: Sequence[str]) -> pd.DataFrame:
    """The numbers of each place: times by kernel, ours last, and ratios with their intervals."""
    own = names[-1]
    times = group.groupby([*PLACE, "kernel"])["us"].agg(geometric_mean).unstack("kernel")
    ours = times_of(group[group["kernel"] == own]).set_index(PLACE)
    compared = {"best": lines, "torch": limit.ratios(group, "torch").set_index(PLACE),
                "roof": limit.shares(group).set_index(PLACE)}  # fmt: skip
    compared["roof"]["ratio"] = compared["roof"]["share"]
    columns = {
        "tuned": lines["tuned"],
        "moved_bytes": lines["bytes"],
        "rounds": ours["rounds"],
        **{f"{name}_us": times[name] if name in times else float("nan") for name in names},
        f"{own}_us": ours["us"],
        f"{own}_low_us": ours["low"],
        f"{own}_high_us": ours["high"],
        "best_peer": lines["kernel"],
        **{f"{name}_{end}": one[end] for name, one in compared.items()
           for end in ("ratio", "low", "high")},
        "above_roof": lines["above_roof"],
    }  # fmt: skip
    return pd.DataFrame(columns, index=lines.index)


def widths_of(found: pd.DataFrame) -> str:
    """Whether `auto` was tuned at the widths of a group of points; only softmax knows others."""
    if found["operation"].iloc[0] != OPERATION:
        return "all"
    return "tuned" if found["tuned"].iloc[0] else "held out"


def limits_summary(inputs: Inputs) -> Named:
    """The same in few numbers: the large matrices first, all of them last."""
    for operation, found in inputs.points.items():
        data = pd.DataFrame([
            line for group in limit.groups(found) for line in _summaries(inputs.frame, group)
        ])  # fmt: skip
        data = data.loc[data["part"].map([*PARTS].index).sort_values(kind="stable").index]
        failed = {f"{name} {status} at {m}×{n} {dtype}": None
                  for (_, m, n, dtype), one in limit.failures(inputs.frame, found).items()
                  for name, status in one.items()}  # fmt: skip
        public = sorted({*found.loc[found["role"] == "peer", "kernel"]}, key=limit.peer_order)
        notes = [*SHORT[: 1 + (operation == OPERATION)],
                 f"Public kernels measured: {', '.join(public)}."]  # fmt: skip
        if failed:
            notes.append(f"Without a time, and so not among them there: {'; '.join(failed)}.")
        texts = pd.DataFrame([_printed(one) for one in records_of(data)])
        title = f"At the limit, in short: {operation}"
        yield file_name("limits_summary", operation), table(title, texts, notes, data)


def _summaries(frame: pd.DataFrame, group: pd.DataFrame) -> Iterator[dict[str, Any]]:
    """A line for each part of a group that has points."""
    lines, shares = limit.ratios(group), limit.shares(group)
    for text, ends in PARTS.items():
        part, of_roof = (
            one[one["bytes"].astype(float).between(*ends, inclusive="left")]
            for one in (lines, shares)
        )
        if len(part):
            points = group.merge(part[PLACE], on=PLACE)
            keys, recordings = keys_of(frame, {label for one in part["labels"] for label in one})
            numbers = _summary(points, part, of_roof["share"].astype(float))
            yield {"part": text, **numbers, "keys": keys, "recordings": recordings}


def _summary(points: pd.DataFrame, part: pd.DataFrame, share: pd.Series) -> dict[str, Any]:
    """The numbers of some places of one group."""
    best, torch = limit.geomean(points), limit.geomean(points, "torch")
    roof = limit.mean_share(points)
    behind, least = limit.behind(part)["ratio"], part.sort_values("ratio").iloc[0]
    return {
        **{name: points.iloc[0][name] for name in ("gpu", "timer", "cache")},
        "widths": widths_of(points), "count": len(part),
        **{f"{name}_{end}": getattr(mean, end, float("nan")) for end in ("value", "low", "high")
           for name, mean in (("best", best), ("torch", torch))},
        "units": best.units if best else "", "least": least["ratio"], "least_at": least["name"],
        "behind": len(behind), "behind_least": 1 - behind.max(), "behind_most": 1 - behind.min(),
        "share": roof.value if roof else math.nan, "share_least": share.min(),
    }  # fmt: skip


def _printed(one: Mapping[str, Any]) -> dict[str, Any]:
    """The columns that are printed of a line of numbers."""
    ends = dict.fromkeys(f"{100 * one[f'behind_{end}']:.1f}" for end in ("least", "most"))
    least = f"(least {100 * one['share_least']:.1f} %)"
    return {
        "matrices": one["part"],
        "timer": timer_label(one["timer"]),
        "widths": one["widths"],
        "shapes": one["count"],
        "× fastest public": f"{one['best_value']:.3f} "
        f"({interval_text(one['best_low'], one['best_high'], 3)})",
        "interval over": one["units"],
        "behind": f"{one['behind']}" + f", by {' to '.join(ends)} %" * bool(one["behind"]),
        "share of the roof": "–"
        if pd.isna(one["share"])
        else f"{100 * one['share']:.1f} % {least}",
    }
