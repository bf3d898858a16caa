"""Rows of like measurements, made into points of lines."""

from __future__ import annotations

import json
from typing import Any, cast

import pandas as pd


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


def records_of(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Rows of a table as dictionaries by column."""
    return cast(list[dict[str, Any]], frame.to_dict("records"))
