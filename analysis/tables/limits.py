"""How near our kernel is to the limit: each shape, and in short."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pandas as pd

from analysis import points as limit
from analysis.estimate import geometric_mean
from analysis.figures.limits import file_of, times_of
from analysis.figures.style import slug, variant_order
from analysis.format import Cell, Table, keys_of, number_text
from analysis.load import Inputs
from analysis.points import LARGE_BYTES, PLACE, SHORT_US
from analysis.published import OPERATION
from analysis.selection import records_of, timer_label
from analysis.tables.frames import Named, protocol, table
from experiments.data.cards import card_of
from experiments.data.statistics import unconverged

LARGE = f"{LARGE_BYTES / 1e6:.0f} MB"
PARTS: Mapping[str, Callable[[pd.DataFrame], pd.Series]] = {  # the headline first
    f"{LARGE} and more": lambda lines: lines["bytes"] >= LARGE_BYTES,
    "1 GB and more": lambda lines: lines["bytes"] >= 1e9,
    f"16 MB to {LARGE}": lambda lines: (lines["bytes"] >= 16e6) & (lines["bytes"] < LARGE_BYTES),
    "below 16 MB": lambda lines: lines["bytes"] < 16e6,
    "all": lambda lines: lines["bytes"] >= 0,
}
TIMES = (
    "Times in µs: geometric means of the rounds' medians. Bold: the fastest. × fastest public, × "
    "torch: its time over ours in the same round, the first with its 95 % interval. MB: what any "
    "kernel of the operation moves. Of roof: the time of the fastest kernel that only moves over "
    "ours, for equal bytes; where arithmetic alone takes longer, the time of that.",
    f"~ below {SHORT_US:g} µs, where timers step by half a microsecond. ! above the roof by more "
    "than its interval: no win. A word in place of a time says why there is none.",
)
SHORT = (
    "× fastest public: how many times as long as ours the fastest public kernel takes, as a "
    "geometric mean over the shapes, with a 95 % interval. Interval over: what was repeated, which "
    "is recordings, or widths where recordings drew widths of their own. Behind: shapes at which "
    "the whole interval says that ours is slower, and by how much. Share of the roof: the median "
    "of the shapes, and the least. Where ours is above the roof, the roof's time counts in the "
    "mean.",
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
    first, lines = group.iloc[0], limit.ratios(group).set_index(PLACE)
    own, role = lines["own"].iloc[0], group.drop_duplicates("kernel").set_index("kernel")["role"]
    at = [lines.index.get_level_values(name) for name in ("gpu", "rows", "cols", "dtype")]
    failed = [failures.get(place, {}) for place in zip(*at, strict=True)]
    peers = {*role.index[role == "peer"], *(name for one in failed for name in one)}
    names = [*sorted(role.index[role == "roof"], key=variant_order),
             *sorted(peers, key=limit.peer_order)]  # fmt: skip
    data = _numbers(group, lines, own, names)
    data["failed"] = ["; ".join(f"{name}: {how}" for name, how in one.items()) for one in failed]
    behind = [keys_of(frame, labels) for labels in lines["labels"]]
    data["keys"], data["recordings"] = [*zip(*behind, strict=True)]
    cells = []
    for row, one, how in zip(records_of(data.reset_index()), lines["short"], failed, strict=True):
        times = {name: row[f"{name}_us"] for name in [*names, own]}
        fastest = min(us for name, us in times.items() if us == us and role[name] != "roof")
        texts = [
            how.get(name) or Cell(number_text(us), us == fastest) for name, us in times.items()
        ]
        share = "–" if pd.isna(row["roof_ratio"]) else f"{100 * row['roof_ratio']:.1f} %"
        cells.append([
            f"{row['rows']}×{row['cols']}", row["dtype"], number_text(row["moved_bytes"] / 1e6),
            *texts, row["best_peer"], f"{row['best_ratio']:.3f}{'~' * one}",
            f"{row['best_low']:.3f}–{row['best_high']:.3f}", number_text(row["torch_ratio"], 2),
            f"{share}{'!' * row['above_roof']}",
        ])  # fmt: skip
    other = [first["operation"]] * (first["operation"] != OPERATION)
    where = [*other, card_of(first["gpu"]).name, protocol(first["timer"], first["cache"])]
    heads = ["M×N", "dtype", "MB", *names, own, "fastest public", "× fastest public", "95 %",
             "× torch", "of roof"]  # fmt: skip
    late = int(group["stop_reason"].map(unconverged).ne("").sum())
    ended = f"{late:,} of {len(group):,} rows stopped before they were as precise as asked."
    title = f"At the limit: {', '.join([*where, f'{widths_of(group)} widths'])}"
    return Table(title, heads, cells, [*TIMES, f"{ended} The CSV names them."], data.reset_index())


def _numbers(
    group: pd.DataFrame, lines: pd.DataFrame, own: str, names: Sequence[str]
) -> pd.DataFrame:
    """The numbers of each place: times by kernel, ratios with their intervals."""
    times = group.groupby([*PLACE, "kernel"])["us"].agg(geometric_mean).unstack("kernel")
    mine = group[group["kernel"] == own]
    ours = times_of(mine).set_index(PLACE)
    launch = mine["programs"].map("{:.0f}".format) + "×" + mine["warps"].map("{:.0f}".format)
    launches = mine.assign(launch=launch.where(mine["warps"].notna(), "–")).groupby(PLACE)["launch"]
    late = group.assign(why=group["stop_reason"].map(unconverged)).query("why != ''")
    why = (late["kernel"] + " " + late["why"]).groupby([late[name] for name in PLACE])
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
        "launch": launches.agg(lambda found: " or ".join(dict.fromkeys(found))),
        "best_peer": lines["kernel"],
        **{f"{name}_{end}": one[end] for name, one in compared.items()
           for end in ("ratio", "low", "high")},
        "above_roof": lines["above_roof"],
        "unconverged": why.agg(lambda found: ", ".join(dict.fromkeys(found))),
    }  # fmt: skip
    return pd.DataFrame(columns, index=lines.index).fillna({"unconverged": ""})


def widths_of(found: pd.DataFrame) -> str:
    """Whether `auto` was tuned at the widths of a group of points; only softmax knows others."""
    if found["operation"].iloc[0] != OPERATION:
        return "all"
    return "tuned" if found["tuned"].iloc[0] else "held out"


def limits_summary(inputs: Inputs) -> Named:
    """The same in few numbers: the large matrices first, all of them last."""
    for operation, found in inputs.points.items():
        made = []
        for group in limit.groups(found):
            lines, shares = limit.ratios(group), limit.shares(group).set_index(PLACE)
            for text, inside in PARTS.items():
                part = lines[inside(lines)]
                if len(part):
                    points = group.merge(part[PLACE], on=PLACE)
                    some = shares[shares.index.isin(pd.MultiIndex.from_frame(part[PLACE]))]
                    labels = {label for one in part["labels"] for label in one}
                    keys, recordings = keys_of(inputs.frame, labels)
                    one = _summary(points, part, some)
                    made.append({"part": text, **one, "keys": keys, "recordings": recordings})
        data = pd.DataFrame(made)
        data = data.loc[data["part"].map([*PARTS].index).sort_values(kind="stable").index]
        failed = {f"{name} {status} at {m}×{n} {dtype}": None
                  for (_, m, n, dtype), one in limit.failures(inputs.frame, found).items()
                  for name, status in one.items()}  # fmt: skip
        public = sorted({*found.loc[found["role"] == "peer", "kernel"]}, key=limit.peer_order)
        notes = [*SHORT[: 1 + (operation == OPERATION)],
                 f"Public kernels measured: {', '.join(public)}.",
                 *[f"Without a time, and so not among them there: {'; '.join(failed)}."]
                 * bool(failed)]  # fmt: skip
        stem = "-".join(["limits_summary", *[slug(operation)] * (operation != OPERATION)])
        yield stem, table(f"At the limit, in short: {operation}", _printed(data), notes, data)


def _summary(points: pd.DataFrame, part: pd.DataFrame, shares: pd.DataFrame) -> dict[str, Any]:
    """The numbers of some places of one group."""
    best, torch = limit.geomean(points), limit.geomean(points, "torch")
    summed, behind = limit.summed(points), limit.behind(part)["ratio"]
    least = part.sort_values("ratio").iloc[0]
    worst = shares["share"].astype(float).nsmallest(1)
    low, high = (best.spread if best else None) or (float("nan"), float("nan"))
    return {
        **{name: points.iloc[0][name] for name in ("gpu", "timer", "cache")},
        "widths": widths_of(points), "count": len(part),
        **{f"{name}_{end}": getattr(mean, end, float("nan")) for end in ("value", "low", "high")
           for name, mean in (("best", best), ("torch", torch))},
        "units": best.units if best else "", "recordings_low": low, "recordings_high": high,
        "summed": summed.value if summed else float("nan"), "gap_us": part["gap_us"].median(),
        "least": least["ratio"], "least_at": least["name"], "least_peer": least["kernel"],
        "behind": len(behind), "behind_least": 1 - behind.max(), "behind_most": 1 - behind.min(),
        "share": shares["share"].astype(float).median(), "share_least": worst.min(),
        "share_least_at": shares.loc[worst.index, "name"].iloc[0] if len(worst) else "",
    }  # fmt: skip


def _printed(data: pd.DataFrame) -> pd.DataFrame:
    """What is printed of the numbers: eight columns."""
    percent = "{:.1f}".format
    return pd.DataFrame([
        {
            "matrices": one["part"], "timer": timer_label(one["timer"]), "widths": one["widths"],
            "shapes": one["count"],
            "× fastest public": f"{one['best_value']:.3f} ({one['best_low']:.3f}–"
                                f"{one['best_high']:.3f})",
            "interval over": one["units"],
            "behind": f"{one['behind']}, by " + " to ".join(dict.fromkeys(
                (percent(100 * one["behind_least"]), percent(100 * one["behind_most"])))) + " %"
            if one["behind"] else "0",
            "share of the roof": "–" if pd.isna(one["share"]) else
            f"{100 * one['share']:.1f} % (least {100 * one['share_least']:.1f} %)",
        }
        for one in data.to_dict("records")
    ])  # fmt: skip
