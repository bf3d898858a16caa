"""What was found, in two short tables: softmax by kind of shape, and every operation in one line.

README, the results page and the report show these and no other summary, so their numbers agree.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pandas as pd

from analysis.estimate import geometric_mean
from analysis.format import Cell, Table, keys_of
from analysis.points import (
    LARGE_BYTES,
    PLACE,
    Mean,
    behind,
    geomean,
    groups,
    maker,
    ratios,
    shares,
)
from analysis.published import OPERATION
from analysis.selection import timer_label

NAMES = {
    "torch": "PyTorch",
    "compile": "torch.compile",
    "liger": "Liger",
    "flag_gems": "FlagGems",
    "quack": "QuACK",
    "helion": "Helion",
    "flash": "FlashAttention",
}
LARGE = f"{LARGE_BYTES / 1e6:.0f} MB"
HEADS = ["shapes", "points", "× fastest public kernel", "share of a copy", "slower than it at"]
OPERATION_HEADS = ["operation", "our kernel", "points", "× fastest public kernel", "which mostly",
                   "× where it fails", "share of the roof"]  # fmt: skip


def headline(frame: pd.DataFrame, points: Mapping[str, pd.DataFrame]) -> Table | None:
    """Softmax: ours against the fastest public kernel and a copy; None without such points.

    Args:
        frame: The rows that the points were taken from.
        points: By operation, as `analysis.points.all_points` gives them.
    """
    if OPERATION not in points:
        return None
    found = _first_protocol(points[OPERATION])
    large, tuned = found["bytes"] >= LARGE_BYTES, found["tuned"].astype(bool)
    answered = _has(found, rival := most_often_fastest(found[large] if large.any() else found))
    name = NAMES[maker(rival)]
    parts = {
        "large, widths it was tuned for": found[large & tuned],
        f"large, other widths, where {name} answers": found[large & ~tuned & answered],
        f"large, other widths, where {name} fails": found[large & ~tuned & ~answered],
        "small, widths it was tuned for": found[~large & tuned],
        "small, other widths": found[~large & ~tuned],
    }
    lines, data = [], []
    for text, part in parts.items():
        if (mean := geomean(part)) is not None:
            lines.append(_line(text, part, mean))
            data.append(_data(frame, text, part, mean))
    first = found.iloc[0]
    notes = (
        f"{first['gpu']}, {timer_label(first['timer'])}, {first['cache']} L2. Geometric means of "
        f"the fastest public kernel's time over the time of `{_ours(found)}`, with 95 % "
        f"intervals. Large: a call reads and writes {LARGE} or more. Share of a copy: the copy's "
        "time over ours. Slower: points where the whole interval of the ratio lies below 1.",
    )
    title = "softmax against the fastest public kernel, and against a copy"
    return Table(title, HEADS, lines, notes, pd.DataFrame(data))


def operations(frame: pd.DataFrame, points: Mapping[str, pd.DataFrame]) -> Table | None:
    """Every operation in one line: ours against the fastest public kernel and the roof.

    Large points alone count, or all of an operation that has no large ones.
    """
    lines, data = [], []
    for operation, own in points.items():
        found = _first_protocol(own)
        found = found[found["tuned"].astype(bool)]
        large = found["bytes"] >= LARGE_BYTES
        found = found[large] if large.any() else found
        mean = geomean(found)
        if mean is None:
            continue
        rival = most_often_fastest(found)
        failed = geomean(found[~_has(found, rival)])
        roof, reached = _roof(found), _share(found)
        lines.append([
            operation, _ours(found), str(mean.points), Cell(_mean(mean), strong=True),
            NAMES[maker(rival)],
            "–" if failed is None else f"{failed.value:.2f} at {failed.points}",
            f"{reached} of {roof}" if reached else "–",
        ])  # fmt: skip
        data.append(_data(frame, operation, found, mean))
    if not lines:
        return None
    notes = (
        "Large points, where an operation has such. Which mostly: the kernel that is fastest at "
        "most points. Where it fails: the mean, over the next fastest, of points at which it gives "
        "no right answer.",
    )
    return Table("Every operation", OPERATION_HEADS, lines, notes, pd.DataFrame(data))


def versions(frame: pd.DataFrame, points: Mapping[str, pd.DataFrame]) -> str:
    """The software behind the points in one line, such as ``torch 2.11.0, triton 3.6.0``."""
    labels = sorted({label for found in points.values() for label in found["label"]})
    found: dict[str, set[str]] = {}
    for environment in {id(one): one for one in frame.loc[labels, "environment"]}.values():
        packages = environment.get("packages") or {}
        known = {name: environment.get(name) for name in ("torch", "triton", "cuda", "driver")}
        for name, version in (known | packages).items():
            if version:
                found.setdefault(str(name), set()).add(str(version))
    return ", ".join(f"{name} {' and '.join(sorted(of))}" for name, of in found.items())


def most_often_fastest(found: pd.DataFrame) -> str:
    """The public kernel that is the fastest at most points."""
    return str(ratios(found)["kernel"].value_counts().index[0])


def _first_protocol(found: pd.DataFrame) -> pd.DataFrame:
    """The points of the first GPU and protocol of an operation, whatever their widths."""
    first = groups(found)[0].iloc[0]
    protocol = ["gpu", "timer", "cache"]
    return found[(found[protocol] == first[protocol]).all(axis=1)]


def _has(found: pd.DataFrame, kernel: str) -> pd.Series:
    """At which lines the point has a time of a kernel."""
    timed = set(found.loc[found["kernel"] == kernel, PLACE].itertuples(index=False, name=None))
    places = found[PLACE].itertuples(index=False, name=None)
    return pd.Series([place in timed for place in places], found.index)


def _line(text: str, part: pd.DataFrame, mean: Mean) -> list[str]:
    slower = behind(ratios(part))
    worst = slower.sort_values("ratio").iloc[0] if len(slower) else None
    place = "none" if worst is None else (
        f"{len(slower)}; worst {worst['ratio']:.3f} at {worst['name']}"
    )  # fmt: skip
    return [text, str(mean.points), Cell(_mean(mean), strong=True), _share(part) or "–", place]


def _data(frame: pd.DataFrame, text: str, part: pd.DataFrame, mean: Mean) -> dict[str, Any]:
    """A line for machines, with the rows behind it."""
    lines = ratios(part)
    reached = share_of_roof(part)
    keys, recordings = keys_of(frame, {label for one in lines["labels"] for label in one})
    return {
        "part": text, "points": mean.points, "ratio": mean.value, "low": mean.low,
        "high": mean.high, "interval_over": mean.units, "recordings_used": mean.recordings,
        "share": math.nan if reached is None else reached.value,
        "slower": len(behind(lines)), "keys": keys, "recordings": recordings,
    }  # fmt: skip


def share_of_roof(found: pd.DataFrame) -> Mean | None:
    """The mean share of the roof; arithmetic may be what bounds it."""
    if found["arithmetic_us"].notna().any():
        lines = shares(found)
        if lines.empty:
            return None
        value, low, high = (geometric_mean(lines[name]) for name in ("share", "low", "high"))
        return Mean(value, low, high, points=len(lines))
    return None if found["flops"].gt(0).any() else geomean(found, "roof")


def _share(found: pd.DataFrame) -> str:
    reached = share_of_roof(found)
    return "" if reached is None else f"{100 * min(reached.value, 1):.1f} %"


def _roof(found: pd.DataFrame) -> str:
    longest = found["arithmetic_us"].notna().any()
    return "the longest of three" if longest else str(found["roof"].iloc[0])


def _ours(found: pd.DataFrame) -> str:
    return str(found.loc[found["role"] == "ours", "kernel"].iloc[0])


def _mean(mean: Mean) -> str:
    return f"{mean.value:.2f} ({mean.low:.2f}–{mean.high:.2f})"
