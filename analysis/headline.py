"""The results in two short tables: softmax by kind of shape, and every operation in one line.

README, the results page and the report show these and no other summary, so their numbers agree.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pandas as pd

from analysis.format import Cell, Table, keys_of
from analysis.points import (
    LARGE_BYTES,
    PLACE,
    Mean,
    behind,
    geomean,
    groups,
    maker,
    mean_share,
    ratios,
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
HEADS = ["shapes", "points", "speed / fastest public", "share of a copy", "ours is slower at"]


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
    rival = _most_often_fastest(found[large] if large.any() else found)
    answered, name = _has(found, rival), NAMES[maker(rival)]
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
            slower = behind(ratios(part)).sort_values("ratio")
            worst = "none"
            if len(slower):
                least = slower.iloc[0]
                worst = f"{len(slower)}; worst {least['ratio']:.3f} at {least['name']}"
            lines.append([text, *_cells(mean), _share(part) or "–", worst])
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
        if (mean := geomean(found)) is None:
            continue
        rival = _most_often_fastest(found)
        failed = geomean(found[~_has(found, rival)])
        arithmetic = found["arithmetic_us"].notna().any()
        roof = "the slowest of three roofs" if arithmetic else found["roof"].iloc[0]
        share, other = _share(found), failed and f"{failed.value:.2f} at {failed.points}"
        line = [operation, _ours(found), *_cells(mean), NAMES[maker(rival)], other or "–"]
        lines.append([*line, f"{share} of {roof}" if share else "–"])
        data.append(_data(frame, operation, found, mean))
    if not lines:
        return None
    notes = (
        "Large points, if an operation has any. Main rival: the public kernel that is fastest at "
        "most points. If it fails: the speed over the next fastest, at the points where the main "
        "rival gives no right answer. Roof: the fastest kernel that only moves the same bytes.",
    )
    heads = ["operation", "our kernel", *HEADS[1:3], "main rival", "speed if it fails"]
    heads.append("share of the roof")
    return Table("Every operation", heads, lines, notes, pd.DataFrame(data))


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


def _most_often_fastest(found: pd.DataFrame) -> str:
    """The public kernel that is the fastest at most points."""
    return str(ratios(found)["kernel"].value_counts().index[0])


def _first_protocol(found: pd.DataFrame) -> pd.DataFrame:
    """The points of the first GPU and protocol of an operation, whatever their widths."""
    protocol = ["gpu", "timer", "cache"]
    return found[(found[protocol] == groups(found)[0].iloc[0][protocol]).all(axis=1)]


def _has(found: pd.DataFrame, kernel: str) -> pd.Series:
    """At which lines the point has a time of a kernel."""
    timed = pd.MultiIndex.from_frame(found.loc[found["kernel"] == kernel, PLACE])
    return pd.Series(pd.MultiIndex.from_frame(found[PLACE]).isin(timed), found.index)


def _cells(mean: Mean) -> list[str]:
    text = f"{mean.value:.2f} ({mean.low:.2f}–{mean.high:.2f})"
    return [str(mean.points), Cell(text, strong=True)]


def _data(frame: pd.DataFrame, text: str, part: pd.DataFrame, mean: Mean) -> dict[str, Any]:
    """A line for machines, with the rows behind it."""
    lines, share = ratios(part), mean_share(part)
    keys, recordings = keys_of(frame, {label for one in lines["labels"] for label in one})
    return {
        **{"part": text, "points": mean.points, "ratio": mean.value, "low": mean.low},
        **{"high": mean.high, "interval_over": mean.units, "recordings_used": mean.recordings},
        **{"share": share.value if share else math.nan, "slower": len(behind(lines))},
        **{"keys": keys, "recordings": recordings},
    }


def _share(found: pd.DataFrame) -> str:
    share = mean_share(found)
    return "" if share is None else f"{100 * min(share.value, 1):.1f} %"


def _ours(found: pd.DataFrame) -> str:
    return str(found.loc[found["role"] == "ours", "kernel"].iloc[0])
