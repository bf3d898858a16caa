"""The results in two short tables: softmax by kind of shape, and every operation in one line.

README, the results page and the report show these and no other summary, so their numbers agree.
"""

from __future__ import annotations

import math
from typing import Any

import pandas as pd

from analysis.format import Cell, keys_of
from analysis.load import Inputs
from analysis.points import (
    LARGE_BYTES,
    MAKERS,
    PLACE,
    behind,
    geomean,
    groups,
    maker,
    mean_share,
    ratios,
)
from analysis.published import OPERATION
from analysis.selection import timer_label
from analysis.tables.frames import Named, table, texts

SPEED = "speed / fastest public"


def headline(inputs: Inputs) -> Named:
    """Softmax: ours against the fastest public kernel and a copy, under the first protocol."""
    if OPERATION not in inputs.points:
        return
    found, protocol = inputs.points[OPERATION], ["gpu", "timer", "cache"]
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
    data = pd.DataFrame(
        {"shapes": text} | _summary(inputs.frame, part) for text, part in parts.items() if len(part)
    )
    shown = data[["shapes", "points"]].assign(
        **{SPEED: _speeds(data), "share of a copy": data["share"].map(_percent)}
    )
    worst = data[["slower", "worst", "worst_at"]].itertuples(index=False)
    shown["ours is slower at"] = [
        f"{n}; worst {x:.3f} at {at}" if n else "none" for n, x, at in worst
    ]
    first, own = found.iloc[0], found.loc[found["role"] == "ours", "kernel"].iloc[0]
    where = f"{first['gpu']}, {timer_label(first['timer'])}, {first['cache']} L2"
    notes = texts("headline", where=where, own=own, large=f"{LARGE_BYTES / 1e6:.0f} MB")
    title = "softmax against the fastest public kernel, and against a copy"
    yield "headline", table(title, shown, notes, data)


def operations(inputs: Inputs) -> Named:
    """Every operation in one line: ours against the fastest public kernel and the roof.

    Large points of the first protocol alone count, or all of an operation that has no large ones.
    """
    lines = []
    for operation, every in inputs.points.items():
        found = groups(every)[0]
        large = found["bytes"] >= LARGE_BYTES
        found = found[large] if large.any() else found
        if not (rival := _rival(found)):
            continue
        failed = geomean(found[~_has(found, rival)])
        arithmetic = found["arithmetic_us"].notna().any()
        line = {
            "operation": operation,
            "our kernel": found.loc[found["role"] == "ours", "kernel"].iloc[0],
            "main rival": MAKERS[maker(rival)],
            "speed if it fails": failed and f"{failed.value:.2f} at {failed.points}",
            "roof": "the slowest of three roofs" if arithmetic else found["roof"].iloc[0],
        }
        lines.append(line | _summary(inputs.frame, found))
    if lines:
        data = pd.DataFrame(lines)
        shown = data[["operation", "our kernel", "points", "main rival", "speed if it fails"]]
        shown.insert(3, SPEED, _speeds(data))
        of_roof = data["share"].map(_percent) + " of " + data["roof"]
        shown["share of the roof"] = of_roof.where(data["share"].notna(), "–")
        notes = texts("operations", versions=versions(inputs))
        yield "operations", table("Every operation", shown, notes, data)


def versions(inputs: Inputs) -> str:
    """The software behind the points in one line, such as ``torch 2.11.0, triton 3.6.0``."""
    labels = sorted({label for found in inputs.points.values() for label in found["label"]})
    environments = {id(one): one for one in inputs.frame.loc[labels, "environment"]}.values()
    parts = ("torch", "triton", "cuda", "driver")
    known = pd.DataFrame(
        {part: one.get(part) for part in parts} | (one.get("packages") or {})
        for one in environments
    )
    several = {name: sorted(known[name].dropna().unique()) for name in known}
    return ", ".join(f"{name} {' and '.join(own)}" for name, own in several.items() if own)


def _summary(frame: pd.DataFrame, found: pd.DataFrame) -> dict[str, Any]:
    """Some points in one line of numbers, with the rows behind it."""
    mean, share, lines = geomean(found), mean_share(found), ratios(found)
    assert mean is not None  # a point has a public kernel
    slower = behind(lines).sort_values("ratio")
    keys, recordings = keys_of(frame, {label for one in lines["labels"] for label in one})
    return {
        **{"points": mean.points, "ratio": mean.value, "low": mean.low, "high": mean.high},
        **{"interval_over": mean.units, "recordings_used": mean.recordings},
        **{"share": share.value if share else math.nan, "slower": len(slower)},
        **{"worst": slower["ratio"].min(), "worst_at": "".join(slower["name"][:1])},
        **{"keys": keys, "recordings": recordings},
    }


def _speeds(data: pd.DataFrame) -> pd.Series:
    ends = data[["ratio", "low", "high"]].itertuples(index=False)
    cells = [Cell(f"{x:.2f} ({low:.2f}–{high:.2f})", strong=True) for x, low, high in ends]
    return pd.Series(cells, dtype=object)


def _percent(share: float) -> str:
    return "–" if math.isnan(share) else f"{100 * min(share, 1):.1f} %"


def _rival(found: pd.DataFrame) -> str:
    """The public kernel that is the fastest at most points; empty where none has a time."""
    return next(iter(ratios(found)["kernel"].value_counts().index), "")


def _has(found: pd.DataFrame, kernel: str) -> pd.Series:
    """At which lines the point has a time of a kernel."""
    timed = pd.MultiIndex.from_frame(found.loc[found["kernel"] == kernel, PLACE])
    return pd.Series(pd.MultiIndex.from_frame(found[PLACE]).isin(timed), found.index)
