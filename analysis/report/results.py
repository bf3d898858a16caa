"""The main results in numbers: each variant's share of the roof, on points that all share."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from analysis.estimate import geometric_mean
from analysis.figures.style import variant_order
from analysis.format import Table
from analysis.selection import name_variants
from experiments.data.cards import Card, card_of

PLACE = ["sweep", "timer", "cache", "card", "round", "rows", "cols", "dtype"]
PRESENT = 0.75  # of the points of the fullest variant, to take part in the comparison


@dataclass(frozen=True)
class Standing:
    """One variant on the points that all compared variants have.

    Attributes:
        variant: Its name.
        share: Geometric mean of its share of the copy roof, which is a ratio of times.
        over_naive: Geometric mean of naive's time over its own, None without naive.
        over_torch: The same over torch.softmax.
        highest: Its highest share that is not above the roof, and where.
        where: M×N and dtype of the highest share.
    """

    variant: str
    share: float
    over_naive: float | None
    over_torch: float | None
    highest: float | None
    where: str


@dataclass(frozen=True)
class Results:
    """What one GPU's rows say on the whole.

    Attributes:
        card: Whose they are.
        points: How many rows, by status.
        standings: Best first; empty where no roof was measured.
        compared: On how many points they are compared.
        beyond_l2: Whether only points whose matrices exceed L2 are compared.
        left_out: Variants that ran at too few points to be compared.
    """

    card: Card
    points: dict[str, int]
    standings: tuple[Standing, ...]
    compared: int
    beyond_l2: bool
    left_out: tuple[str, ...]


def results_of(frame: pd.DataFrame, gpu: str) -> Results:
    """The results of one GPU; interpreted rows, whose time means nothing, are only counted."""
    card, mine = card_of(gpu), frame[frame["gpu"] == gpu]
    statuses = {str(k): int(v) for k, v in mine["status"].value_counts().sort_index().items()}
    own = mine[(mine["status"] == "ok") & (mine["backend"] != "interpreter")]
    own = own[(own["operation"] != "copy") & own["fraction_of_roof"].gt(0)]
    beyond = own[own["compulsory_bytes"] > (card.l2_bytes or np.inf)]
    beyond_l2 = not beyond.empty
    timed = name_variants(beyond if beyond_l2 else own)
    if timed.empty:
        return Results(card, statuses, (), 0, False, ())
    shares = timed.pivot_table(index=PLACE, columns="variant", values="fraction_of_roof")
    counts = shares.count()
    kept = [v for v in shares.columns if counts[v] >= PRESENT * counts.max()]
    common = shares[kept].dropna()
    if common.empty:
        kept, common = list(shares.columns), shares
    standings = [_standing(v, common, timed) for v in kept]
    standings.sort(key=lambda s: (-s.share, variant_order(s.variant)))
    left = sorted(set(shares.columns) - set(kept), key=variant_order)
    return Results(card, statuses, tuple(standings), len(common), beyond_l2, tuple(left))


def standings_table(results: Results) -> Table | None:
    """The variants of one GPU, best first; None where no roof was measured."""
    if not results.standings:
        return None
    lines = [
        [
            one.variant,
            f"{100 * one.share:.1f} %",
            "" if one.over_naive is None else f"{one.over_naive:.2f}×",
            "" if one.over_torch is None else f"{one.over_torch:.2f}×",
            "" if one.highest is None else f"{100 * one.highest:.1f} %",
            one.where,
        ]
        for one in results.standings
    ]
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


def _standing(variant: str, shares: pd.DataFrame, timed: pd.DataFrame) -> Standing:
    mine = shares[variant].dropna()
    below = timed[(timed["variant"] == variant) & ~timed["above_roof"]]
    top = None if below.empty else below.sort_values(["fraction_of_roof", "cols"]).iloc[-1]
    return Standing(
        variant,
        geometric_mean(mine),
        _ratio(mine, shares, "naive"),
        _ratio(mine, shares, "torch"),
        None if top is None else float(top["fraction_of_roof"]),
        "" if top is None else f"{top['rows']}×{top['cols']} {top['dtype']}",
    )


def _ratio(mine: pd.Series, shares: pd.DataFrame, other: str) -> float | None:
    """Times that share a roof are in the inverse ratio of their shares."""
    if other not in shares:
        return None
    ratios = (mine / shares[other]).dropna()
    return geometric_mean(ratios) if len(ratios) else None
