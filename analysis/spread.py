"""Card to card: points that every card of one sweep measured, each card's time over their mean."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
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
        if len(cards) < 2:
            continue
        named = name_variants(rows)
        points = _points(records_of(named.sort_values([*POINT, "card", "round"])), cards)
        if points:
            found.append(Cards(str(gpu), str(sweep), cards, points, named))
    return found


def _points(rows: Iterable[Row], cards: Sequence[int]) -> list[Point]:
    points = []
    for _, same in groupby(rows, key=lambda row: tuple(row[name] for name in POINT)):
        by_card = {int(c): list(mine) for c, mine in groupby(same, key=lambda row: row["card"])}
        if len(by_card) == len(cards):
            points.append(_point(by_card))
    return sorted(points, key=lambda point: point.mean_us)


def _point(by_card: Mapping[int, Sequence[Row]]) -> Point:
    times = {card: geometric_mean(r["time_us"] for r in mine) for card, mine in by_card.items()}
    mean = geometric_mean(times.values())
    ratios = {
        card: Estimate(
            times[card] / mean,
            min(float(row["time_low_us"]) for row in mine) / mean,
            max(float(row["time_high_us"]) for row in mine) / mean,
            len({row["round"] for row in mine}),
        )
        for card, mine in by_card.items()
    }
    return Point(next(iter(by_card.values()))[0], mean, ratios)
