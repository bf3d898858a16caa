"""Rows of like measurements, made into points of lines."""

from __future__ import annotations

import json
from typing import Any, cast

import pandas as pd


def name_variants(frame: pd.DataFrame) -> pd.DataFrame:
    """Adds ``variant``: the kernel's name, with the tunables that tell its settings apart."""
    # many rows share few settings: each is looked at once
    settings = {id(params): params for params in frame["params"]}
    texts = {own: json.dumps(params) for own, params in settings.items()}
    params_of = {texts[own]: params for own, params in settings.items()}
    asked = pd.Series([texts[id(params)] for params in frame["params"]], frame.index, dtype=object)
    names = pd.Series(index=frame.index, dtype=object)
    for kernel, group in asked.groupby(frame["kernel"]):
        known = {text: params_of[text] for text in group.unique()}
        keys = sorted({key for params in known.values() for key in params})
        telling = [k for k in keys if len({json.dumps(p.get(k)) for p in known.values()}) > 1]
        told = {
            text: " ".join([str(kernel), *(f"{k}={p.get(k)}" for k in telling)])
            for text, p in known.items()
        }
        names[group.index] = group.map(told)
    return frame.assign(variant=names)


def middle_visits(frame: pd.DataFrame, over: str) -> pd.DataFrame:
    """One row a variant and size: the middle one by time, with the widest interval of all visits.

    A recorded row is taken whole, never an average of GB/s, so all its columns belong together.
    """
    visit = ["sweep", "operation", "variant", "rows", "cols", "card", "round"]
    # A kernel edited or a library updated since leaves stale rows before the newest one.
    newest = frame.drop_duplicates(visit, keep="last")
    good = (newest["status"] == "ok") & newest["time_us"].notna()
    times = newest["time_us"].where(good)
    visits = newest.assign(
        _failed=~good,
        _time=times.fillna(0.0),
        _low=newest["time_low_us"].fillna(newest["time_us"]).where(good),
        _high=newest["time_high_us"].fillna(newest["time_us"]).where(good),
    )
    point = ["operation", "variant", over]
    visits = visits.sort_values([*point, "_failed", "_time"], kind="stable", ignore_index=True)
    groups = visits.groupby(point, sort=False)
    timed = groups["_failed"].transform("size") - groups["_failed"].transform("sum")
    middle = ((timed - 1) // 2).clip(lower=0)  # of failed visits alone the first
    ends = {"time_low_us": groups["_low"].transform("min"),
            "time_high_us": groups["_high"].transform("max")}  # fmt: skip
    for name, widest in ends.items():
        visits[name] = widest.fillna(visits[name])
    kept = visits[groups.cumcount() == middle]
    return kept.drop(columns=["_failed", "_time", "_low", "_high"]).reset_index(drop=True)


def records_of(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Rows of a table as dictionaries by column."""
    return cast(list[dict[str, Any]], frame.to_dict("records"))
