"""How near our kernel is to the limit: each shape, and in short."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import pandas as pd

from analysis import points as limit
from analysis.estimate import geometric_mean
from analysis.figures.limits import file_of
from analysis.figures.style import file_name, variant_order
from analysis.format import Cell, Table, interval_text, keys_of, number_text
from analysis.load import Inputs
from analysis.points import LARGE_BYTES, PLACE, SHORT_US
from analysis.published import OPERATION
from analysis.selection import timer_label
from analysis.tables.frames import Named, protocol, table
from analysis.tables.frames import texts as sentences
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
ENDS = ["low", "high"]


def limits(inputs: Inputs) -> Named:
    """At every shape each public kernel's time, ours and the roof's, softmax first."""
    for found in inputs.points.values():
        failures = limit.failures(inputs.frame, found)
        for group in limit.groups(found):
            yield file_of("limits", group), _shapes(inputs.frame, group, failures)


def _shapes(frame: pd.DataFrame, group: pd.DataFrame, failures: Mapping[Any, Any]) -> Table:
    """A line per place of one group."""
    lines, role = limit.ratios(group), group.drop_duplicates("kernel").set_index("kernel")["role"]
    own, first = lines["own"].iloc[0], group.iloc[0]
    at = lines[["gpu", "rows", "cols", "dtype"]].itertuples(index=False, name=None)
    failed = [failures.get(place, {}) for place in at]
    peers = {*role.index[role == "peer"], *(name for one in failed for name in one)}
    roofs = sorted(role.index[role == "roof"], key=variant_order)
    public = [*sorted(peers, key=limit.peer_order), own]
    behind = [keys_of(frame, labels) for labels in lines["labels"]]
    data = _numbers(group, lines, [*roofs, *public]).assign(
        failed=["; ".join(f"{name}: {how}" for name, how in one.items()) for one in failed],
        keys=[keys for keys, _ in behind],
        recordings=[recordings for _, recordings in behind],
    )
    fastest = data[[f"{name}_us" for name in public]].min(axis=1)
    texts = pd.DataFrame({"M×N": data["rows"].astype(str) + "×" + data["cols"].astype(str)})
    texts["dtype"], texts["MB"] = data["dtype"], data["moved_bytes"] / 1e6
    for name in (*roofs, *public):
        cells = zip(data[f"{name}_us"], fastest, failed, strict=True)
        shown = [
            how.get(name) or Cell(number_text(us), name in public and us == least)
            for us, least, how in cells
        ]
        texts[name] = pd.Series(shown, dtype=object)
    ends = zip(data["best_low"], data["best_high"], strict=True)
    shares = data["roof_ratio"].map(lambda one: "–" if pd.isna(one) else f"{100 * one:.1f} %")
    texts["fastest public"] = data["best_peer"]
    texts["× fastest public"] = data["best_ratio"].map("{:.3f}".format)
    texts["× fastest public"] += lines["short"].map("~".__mul__)
    texts["95 %"] = [interval_text(low, high, 3) for low, high in ends]
    texts["× torch"] = data["torch_ratio"].map(lambda one: number_text(one, 2))
    texts["of roof"] = shares + lines["above_roof"].map("!".__mul__)
    late = int(group["stop_reason"].map(unconverged).ne("").sum())
    notes = sentences("limits", late=late, times=len(group), short=SHORT_US)
    where = [first["operation"], card_of(first["gpu"]).name]
    where += [protocol(first["timer"], first["cache"]), f"{widths_of(group)} widths"]
    return table(f"At the limit: {', '.join(where)}", texts, notes, data)


def _numbers(group: pd.DataFrame, lines: pd.DataFrame, names: list[str]) -> pd.DataFrame:
    """The numbers of each place: times by kernel, ours last, and ratios with their intervals."""
    at = lines.set_index(PLACE)
    times = group.groupby([*PLACE, "kernel"])["us"].agg(geometric_mean).unstack("kernel")
    times = times.reindex(columns=names).reindex(at.index)
    data = at[["tuned"]].assign(moved_bytes=at["bytes"])
    data[[f"{name}_us" for name in names]] = times
    data["best_peer"] = at["kernel"]
    shares = limit.shares(group).set_index(PLACE)
    rivals = {"best": at, "torch": limit.ratios(group, "torch").set_index(PLACE)}
    rivals["roof"] = shares.assign(ratio=shares["share"])
    for name, one in rivals.items():
        data[[f"{name}_{end}" for end in ("ratio", *ENDS)]] = one[["ratio", *ENDS]]
    return data.assign(above_roof=at["above_roof"]).reset_index()


def widths_of(found: pd.DataFrame) -> str:
    """Whether `auto` was tuned at the widths of a group of points; only softmax knows others."""
    if found["operation"].iloc[0] != OPERATION:
        return "all"
    return "tuned" if found["tuned"].iloc[0] else "held out"


def limits_summary(inputs: Inputs) -> Named:
    """The same in few numbers: the large matrices first, all of them last."""
    for operation, found in inputs.points.items():
        every = [line for one in limit.groups(found) for line in _summaries(inputs.frame, one)]
        every.sort(key=lambda line: [*PARTS].index(line[0]["matrices"]))
        failed = [
            f"{name} {status} at {m}×{n} {dtype}"
            for (_, m, n, dtype), one in limit.failures(inputs.frame, found).items()
            for name, status in one.items()
        ]
        public = sorted({*found.loc[found["role"] == "peer", "kernel"]}, key=limit.peer_order)
        notes = sentences("limits_summary")
        if operation == OPERATION:
            notes += sentences("tuned", grids=", ".join(limit.TUNED))
        notes.append(f"Public kernels measured: {', '.join(public)}.")
        if failed:
            several = "; ".join(dict.fromkeys(failed))
            notes.append(f"Without a time, and so not among them there: {several}.")
        shown, data = (pd.DataFrame(part) for part in zip(*every, strict=True))
        title = f"At the limit, in short: {operation}"
        yield file_name("limits_summary", operation), table(title, shown, notes, data)


def _summaries(
    frame: pd.DataFrame, group: pd.DataFrame
) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """A line of texts, and one of numbers, for each part of a group that has points."""
    lines, shares = limit.ratios(group), limit.shares(group)
    for name, (low, high) in PARTS.items():
        part = lines[lines["bytes"].ge(low) & lines["bytes"].lt(high)]
        if part.empty:
            continue
        points = group.merge(part[PLACE], on=PLACE)
        best, roof = limit.geomean(points), limit.mean_share(points)
        assert best is not None  # every point has a public kernel
        slower = 1 - limit.behind(part)["ratio"]
        least = shares.merge(part[PLACE], on=PLACE)["share"].min()
        place: dict[str, Any] = {"matrices": name, "timer": timer_label(group["timer"].iloc[0])}
        place |= {"widths": widths_of(points), "shapes": len(part)}
        ends = dict.fromkeys(f"{100 * one:.1f}" for one in (slower.min(), slower.max()))
        behind = f"{len(slower)}" + f", by {' to '.join(ends)} %" * bool(len(slower))
        share = f"{100 * roof.value:.1f} % (least {100 * least:.1f} %)" if roof else "–"
        text = {"× fastest public": f"{best.value:.3f} ({interval_text(best.low, best.high, 3)})"}
        text |= {"interval over": best.units, "behind": behind, "share of the roof": share}
        data = {"gpu": group["gpu"].iloc[0], "cache": group["cache"].iloc[0]}
        data |= {"ratio": best.value, "low": best.low, "high": best.high, "units": best.units}
        data |= {"behind": len(slower), "behind_most": slower.max(), "share_least": least}
        data["share"] = roof.value if roof else math.nan
        keys, recordings = keys_of(frame, {label for one in part["labels"] for label in one})
        yield place | text, place | data | {"keys": keys, "recordings": recordings}
