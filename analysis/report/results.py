"""The main results in numbers: each variant's share of the roof, on points that all share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from analysis.estimate import geometric_mean
from analysis.figures.style import variant_order
from analysis.format import Table
from analysis.selection import name_variants, records_of
from experiments.data.cards import Card, card_of

PLACE = ["sweep", "timer", "cache", "card", "round", "rows", "cols", "dtype"]
PRESENT = 0.75  # of the points of the fullest variant, to take part in the comparison


@dataclass(frozen=True)
class Results:
    """What one GPU's rows say on the whole.

    A standing has ``variant``; ``share`` of the copy roof, ``over_naive`` and ``over_torch``, which
    are geometric means of time ratios, NaN where the other was not timed; and ``top``, the row of
    its highest share that is not above the roof, or None.
    """

    card: Card
    points: Mapping[str, int]  # how many rows, by status
    standings: Sequence[Mapping[str, Any]] = ()  # best first; none where no roof was measured
    compared: int = 0  # on how many points
    beyond_l2: bool = False  # whether only points whose matrices exceed L2 are compared
    left_out: Sequence[str] = ()  # variants that ran at too few points to be compared


def results_of(frame: pd.DataFrame, gpu: str) -> Results:
    """The results of one GPU; interpreted rows, whose time means nothing, are only counted."""
    card, mine = card_of(gpu), frame[frame["gpu"] == gpu]
    statuses = {str(status): n for status, n in mine["status"].value_counts().sort_index().items()}
    own = mine[(mine["status"] == "ok") & (mine["backend"] != "interpreter")]
    own = own[(own["operation"] != own["roof"]) & own["fraction_of_roof"].gt(0)]
    beyond = own[own["compulsory_bytes"] > (card.l2_bytes or np.inf)]
    timed = name_variants(own if beyond.empty else beyond)
    if timed.empty:
        return Results(card, statuses)
    shares = timed.pivot_table(index=PLACE, columns="variant", values="fraction_of_roof")
    enough = shares.count() >= PRESENT * shares.count().max()
    common = shares.loc[:, enough].dropna()
    if common.empty:
        common = shares
    ordered = timed[~timed["above_roof"]].sort_values(["fraction_of_roof", "cols"])
    tops = {row["variant"]: row for row in records_of(ordered)}  # of each the last, its highest
    standings: list[dict[str, Any]] = [
        {
            "variant": variant,
            "share": geometric_mean(common[variant].dropna()),
            "over_naive": _over(common, variant, "naive"),
            "over_torch": _over(common, variant, "torch"),
            "top": tops.get(variant),
        }
        for variant in sorted(map(str, common), key=variant_order)
    ]
    standings.sort(key=lambda one: -one["share"])
    left = sorted(map(str, set(shares) - set(common)), key=variant_order)
    return Results(card, statuses, standings, len(common), not beyond.empty, left)


def standings_table(results: Results) -> Table | None:
    """The variants of one GPU, best first; None where no roof was measured."""
    if not results.standings:
        return None
    lines = []
    for one in results.standings:
        ratios = [one["over_naive"], one["over_torch"]]
        highest = ["", ""]
        if top := one["top"]:
            place = f"{top['rows']}×{top['cols']} {top['dtype']}"
            highest = [f"{100 * top['fraction_of_roof']:.1f} %", place]
        times = ["" if np.isnan(ratio) else f"{ratio:.2f}×" for ratio in ratios]
        lines.append([one["variant"], f"{100 * one['share']:.1f} %", *times, *highest])
    where = " larger than L2" if results.beyond_l2 else ""
    notes = [
        f"Geometric means of time ratios over the {results.compared:,} points{where} at which all "
        "of these variants have a valid time. The highest share is over all its points there, "
        "without those above the roof by more than their interval."
    ]
    if results.left_out:
        notes.append(f"At too few points to be compared: {', '.join(results.left_out)}.")
    heads = ["variant", "share of the roof", "over naive", "over torch", "highest share", "at"]
    return Table(f"Every variant on {results.card.name}", heads, lines, notes)


def _over(shares: pd.DataFrame, variant: str, other: str) -> float:
    """The other's time over the variant's: times that share a roof are inverse to their shares."""
    if other not in shares:
        return np.nan
    return geometric_mean((shares[variant] / shares[other]).dropna())
