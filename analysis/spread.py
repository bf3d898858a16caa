"""Card to card: points that every card of one sweep measured, each card's time over their mean."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from analysis.estimate import Estimate, geometric_mean
from analysis.selection import name_variants, records_of

Row = Mapping[str, Any]
SHORT_US = 20.0  # below it launches and the timer's steps have the larger say
NEEDS = (
    "the same timed points on two or more cards of one kind, in one sweep "
    "(make sweep EXPERIMENT=cards ARGS=gpu.card=0,1)"
)
POINT = ("operation", "variant", "rows", "cols", "dtype", "timer", "cache")


@dataclass(frozen=True)
class Point:
    """One point on several cards.

    Attributes:
        row: Its fields, of the first card.
        mean_us: The geometric mean of the cards' times.
        ratios: By card, its time over that mean. The interval is that of the card's own medians, of
            all its rounds the widest; that of the mean is not in it.
    """

    row: Row
    mean_us: float
    ratios: Mapping[int, Estimate]

    @property
    def spread(self) -> float:
        """The slowest card's time over that of the fastest."""
        values = [ratio.value for ratio in self.ratios.values()]
        return max(values) / min(values)

    @property
    def name(self) -> str:
        """The point in words."""
        return f"{self.row['variant']} {self.row['rows']}×{self.row['cols']} {self.row['dtype']}"


@dataclass(frozen=True)
class Cards:
    """The cards of one kind in one sweep: an index means a card within a sweep alone.

    Attributes:
        gpu: As the driver names their kind.
        sweep: The sweep's name.
        cards: Their indices.
        points: Those that every card measured, by rising time.
        rows: All the rows behind the points.
    """

    gpu: str
    sweep: str
    cards: tuple[int, ...]
    points: Sequence[Point]
    rows: pd.DataFrame


def cards_of(frame: pd.DataFrame) -> list[Cards]:
    """The cards of every sweep and kind that have points in common."""
    timed = frame[(frame["status"] == "ok") & (frame["time_us"] > 0)]
    timed = timed[timed["backend"] != "interpreter"]
    found = []
    for (gpu, sweep), rows in timed.groupby(["gpu", "sweep"], sort=True):
        cards = tuple(sorted({int(card) for card in rows["card"]}))
        named = name_variants(rows).sort_values([*POINT, "card", "round"])
        points = [
            _point(mine)
            for _, mine in named.groupby(list(POINT), sort=False)
            if len(cards) > 1 and mine["card"].nunique() == len(cards)
        ]
        if points:
            points.sort(key=lambda point: point.mean_us)
            found.append(Cards(str(gpu), str(sweep), cards, points, name_variants(rows)))
    return found


def _point(rows: pd.DataFrame) -> Point:
    cards = rows.groupby("card")
    times = cards["time_us"].agg(geometric_mean)
    mean = geometric_mean(times)
    ends = cards.agg(low=("time_low_us", "min"), high=("time_high_us", "max"),
                     rounds=("round", "nunique"))  # fmt: skip
    ratios = {
        int(card): Estimate(times[card] / mean, low / mean, high / mean, int(rounds))
        for card, low, high, rounds in ends.itertuples()
    }
    return Point(records_of(rows.head(1))[0], mean, ratios)
