"""How near our kernel is to the limit at each shape."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from analysis import points as limit
from analysis.estimate import geometric_mean
from analysis.figures.limits import file_of
from analysis.figures.style import variant_order
from analysis.format import Cell, Table, interval_text, keys_of, number_text
from analysis.load import Inputs
from analysis.points import ENDS, PLACE, SHORT_US
from analysis.published import OPERATION
from analysis.tables.frames import Named, protocol, table, texts
from experiments.data.cards import card_of
from experiments.data.jobs import OURS
from experiments.data.rows import EXPECTED
from experiments.data.statistics import unconverged

POINT = ["gpu", "rows", "cols", "dtype"]


def limits(inputs: Inputs) -> Named:
    """At every shape each public kernel's time, ours and the roof's, softmax first."""
    for found in inputs.points.values():
        failed = _failures(inputs.frame, found)
        for group in limit.groups(found):
            yield file_of("limits", group), _shapes(inputs.frame, group, failed)


def _failures(frame: pd.DataFrame, found: pd.DataFrame) -> Mapping[Any, dict[str, str]]:
    """By point the public kernels that failed and have no time at all, and their status."""
    mine = (frame[["operation", "set"]] == found[["operation", "set"]].iloc[0]).all(axis=1)
    rows = frame[mine & ~frame["status"].isin(EXPECTED)]
    rows = rows[~rows["kernel"].map(limit.maker).isin(["", OURS])]
    timed = pd.MultiIndex.from_frame(found[[*POINT, "kernel"]])
    rows = rows[~pd.MultiIndex.from_frame(rows[[*POINT, "kernel"]]).isin(timed)]
    return {
        at: dict(zip(one["kernel"], one["status"], strict=True)) for at, one in rows.groupby(POINT)
    }


def _shapes(frame: pd.DataFrame, group: pd.DataFrame, failures: Mapping[Any, Any]) -> Table:
    """A line per place of one group."""
    lines, role = limit.ratios(group), group.drop_duplicates("kernel").set_index("kernel")["role"]
    own, first = lines["own"].iloc[0], group.iloc[0]
    failed = [failures.get(at, {}) for at in lines[POINT].itertuples(index=False, name=None)]
    peers = {*role.index[role == "peer"], *(name for one in failed for name in one)}
    roofs = sorted(role.index[role == "roof"], key=variant_order)
    public = [*sorted(peers, key=limit.peer_order), own]
    data = _numbers(group, lines, [*roofs, *public]).assign(
        failed=["; ".join(f"{name}: {how}" for name, how in one.items()) for one in failed]
    )
    behind = [keys_of(frame, labels) for labels in lines["labels"]]
    data[["keys", "recordings"]] = pd.DataFrame(behind, dtype=object)
    fastest = data[[f"{name}_us" for name in public]].min(axis=1)
    shown = pd.DataFrame({"M×N": data["rows"].astype(str) + "×" + data["cols"].astype(str)})
    shown["dtype"], shown["MB"] = data["dtype"], data["moved_bytes"] / 1e6
    for name in (*roofs, *public):
        cells = zip(data[f"{name}_us"], fastest, failed, strict=True)
        shown[name] = pd.Series(
            [
                how.get(name) or Cell(number_text(us), name in public and us == least)
                for us, least, how in cells
            ],
            dtype=object,
        )
    ends = zip(data["best_low"], data["best_high"], strict=True)
    shares = data["roof_ratio"].map(lambda one: "–" if pd.isna(one) else f"{100 * one:.1f} %")
    shown["fastest public"] = data["best_peer"]
    shown["× fastest public"] = data["best_ratio"].map("{:.3f}".format)
    shown["× fastest public"] += lines["short"].map("~".__mul__)
    shown["95 %"] = [interval_text(low, high, 3) for low, high in ends]
    shown["× torch"] = data["torch_ratio"].map(lambda one: number_text(one, 2))
    shown["of roof"] = shares + lines["above_roof"].map("!".__mul__)
    late = int(group["stop_reason"].map(unconverged).ne("").sum())
    notes = texts("limits", late=late, times=len(group), short=SHORT_US)
    where = [first["operation"], card_of(first["gpu"]).name]
    tuned = "tuned" if first["tuned"] else "held out"  # only softmax knows others
    widths = tuned if first["operation"] == OPERATION else "all"
    where += [protocol(first["timer"], first["cache"]), f"{widths} widths"]
    return table(f"At the limit: {', '.join(where)}", shown, notes, data)


def _numbers(group: pd.DataFrame, lines: pd.DataFrame, names: list[str]) -> pd.DataFrame:
    """The numbers of each place: times by kernel, ours last, and ratios with their intervals."""
    at = lines.set_index(PLACE)
    times = group.groupby([*PLACE, "kernel"])["us"].agg(geometric_mean).unstack("kernel")
    data = at[["tuned"]].assign(moved_bytes=at["bytes"])
    data[[f"{name}_us" for name in names]] = times.reindex(columns=names).reindex(at.index)
    data["best_peer"] = at["kernel"]
    rivals = {"best": lines, "torch": limit.ratios(group, "torch"), "roof": limit.shares(group)}
    for name, one in rivals.items():
        data[[f"{name}_{end}" for end in ENDS]] = one.set_index(PLACE)[ENDS]
    return data.assign(above_roof=at["above_roof"]).reset_index()
