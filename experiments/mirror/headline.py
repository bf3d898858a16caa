"""A job in a few numbers: the summary of its W&B run."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from experiments.data.rows import EXPECTED


def headline(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The numbers of a job's rows, each point counted once, by its last attempt."""
    attempts = sorted(rows, key=lambda row: int(row["attempt"]))
    points = {(row["key"], row["card"], row["round"]): row for row in attempts}.values()
    bandwidths = _known(points, "effective_gbps")
    numbers = {
        "points": len(points),
        "ok": sum(row["status"] == "ok" for row in points),
        "unsupported": sum(row["status"] == "unsupported" for row in points),
        "failed": sum(row["status"] not in EXPECTED for row in points),
        "best_effective_gbps": max(bandwidths, default=None),
        "mean_fraction_of_roof": _geometric_mean(_known(points, "fraction_of_roof")),
        "mean_speedup_over_naive": _geometric_mean(_known(points, "speedup_over_naive")),
    }
    return {name: number for name, number in numbers.items() if number is not None}


def _known(points: Iterable[Mapping[str, Any]], name: str) -> list[float]:
    return [row[name] for row in points if row.get(name) is not None]


def _geometric_mean(ratios: Sequence[float]) -> float | None:
    return math.exp(math.fsum(map(math.log, ratios)) / len(ratios)) if ratios else None
