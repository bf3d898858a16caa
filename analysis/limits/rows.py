"""Rows gathered to the points of `analysis.limits`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pandas as pd

from analysis.limits import COPIES, OWN, PEERS
from analysis.limits.points import Point, Visit
from analysis.load import ITEM_BYTES
from analysis.selection import records_of

PLACE = ["gpu", "timer", "cache", "dtype", "rows", "cols"]
VISIT = ["sweep", "card", "round"]
Place = tuple[str, str, str, str, int, int]  # the values of PLACE


def points_of(frame: pd.DataFrame) -> list[Point]:
    """Every point at which `auto` and a peer were timed in one visit, by protocol and shape."""
    known = [OWN, *PEERS, *COPIES]
    timed = frame[(frame["status"] == "ok") & frame["time_us"].gt(0) & frame["kernel"].isin(known)]
    timed = timed[(timed["backend"] != "interpreter") & timed["timer"].notna()]
    timed = timed[timed["dtype"].isin(list(ITEM_BYTES))]
    if OWN not in set(timed["kernel"]):
        return []
    timed = timed.rename_axis("label").reset_index()
    timed = timed.assign(_set=[json.dumps(p, sort_keys=True) for p in timed["params"]])
    # a kernel edited since leaves stale rows; one with several settings counts with its fastest
    timed = timed.drop_duplicates([*PLACE, *VISIT, "kernel", "_set"], keep="last")
    timed = timed.sort_values("time_us", kind="stable")
    timed = timed.drop_duplicates([*PLACE, *VISIT, "kernel"]).drop(columns="_set")
    places: dict[Place, dict[str, dict[Visit, Mapping[str, Any]]]] = {}
    for row in records_of(timed.dropna(subset=PLACE)):
        gpu, timer, cache, dtype, m, n = (row[name] for name in PLACE)
        seen = places.setdefault((gpu, timer, cache, dtype, int(m), int(n)), {})
        visit = str(row["sweep"]), int(row["card"]), int(row["round"])
        seen.setdefault(row["kernel"], {})[visit] = row
    found = [Point(*place, seen) for place, seen in places.items() if OWN in seen]
    found = [point for point in found if any(point.has(peer) for peer in PEERS)]
    dtypes = list(ITEM_BYTES)
    return sorted(found, key=lambda p: (p.gpu, p.timer, p.cache, p.rows, p.cols,
                                        dtypes.index(p.dtype)))  # fmt: skip
