"""The main results in numbers: each variant's share of the roof, on points that all share.

One operation each: shares of different roofs are not averaged.
"""

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
    """What one GPU's rows of one operation say on the whole.

    A standing has ``variant``; ``share`` of the roof, ``over_naive`` and ``over_torch``, which are
    geometric means of time ratios, NaN where the other was not timed; and ``top``, the row of its
    highest share that is not above the roof, or None. A time shorter than the roof's counts as the
    roof's in a share: it is not a win, and without the point the mean would flatter.
    """

    card: Card
    operation: str = ""
    roof: str = ""
    standings: Sequence[Mapping[str, Any]] = ()  # best first; none where no roof was measured
    shorter: int = 0  # how many times were shorter than the roof's
    compared: int = 0  # on how many points
    beyond_l2: bool = False  # whether only points whose matrices exceed L2 are compared
    left_out: Sequence[str] = ()  # variants that ran at too few points to be compared


def statuses_of(frame: pd.DataFrame, gpu: str) -> dict[str, int]:
    """How many rows of one GPU ended how."""
    counts = frame.loc[frame["gpu"] == gpu, "status"].value_counts().sort_index()
    return {str(status): count for status, count in counts.items()}


def results_of(frame: pd.DataFrame, gpu: str) -> list[Results]:
    """The results of one GPU, an operation each, those with most rows first.

    Interpreted rows, whose time means nothing, give none; a GPU without any has one of no standing.
    """
    mine = frame[(frame["gpu"] == gpu) & (frame["operation"] != frame["roof"])]
    mine = mine[(mine["status"] == "ok") & (mine["backend"] != "interpreter")]
    mine = mine[mine["fraction_of_roof"].gt(0)]
    alike = sorted(mine.groupby(["operation", "roof"]), key=lambda pair: -len(pair[1]))
    return [_results(card_of(gpu), own) for _, own in alike] or [Results(card_of(gpu))]


def _results(card: Card, own: pd.DataFrame) -> Results:
    """Of the rows of one operation under one roof."""
    operation, roof = own[["operation", "roof"]].iloc[0]
    beyond = own[own["compulsory_bytes"] > (card.l2_bytes or np.inf)]
    timed = name_variants(own if beyond.empty else beyond)
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
            "share": geometric_mean(common[variant].dropna().clip(upper=1)),
            "over_naive": _over(common, variant, "naive"),
            "over_torch": _over(common, variant, "torch"),
            "top": tops.get(variant),
        }
        for variant in sorted(map(str, common), key=variant_order)
    ]
    standings.sort(key=lambda one: -one["share"])
    left = sorted(map(str, set(shares) - set(common)), key=variant_order)
    shorter = int((common > 1).to_numpy().sum())
    return Results(card, operation, roof, standings, shorter, len(common), not beyond.empty, left)


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
    if results.shorter:
        notes.append(
            f"{results.shorter:,} of these times are shorter than the roof's and count as its own: "
            "L2 served them, or chance did; that is not a win."
        )
    if results.left_out:
        notes.append(f"At too few points to be compared: {', '.join(results.left_out)}.")
    heads = ["variant", "share of the roof", "over naive", "over torch", "highest share", "at"]
    title = f"Every variant of {results.operation} on {results.card.name}"
    return Table(title, heads, lines, notes)


def _over(shares: pd.DataFrame, variant: str, other: str) -> float:
    """The other's time over the variant's: times that share a roof are inverse to their shares.

    The gradient's is called ``backward_torch``.
    """
    for name in sorted(map(str, shares), key=len):
        if name == other or name.endswith(f"_{other}"):
            return geometric_mean((shares[variant] / shares[name]).dropna())
    return np.nan
