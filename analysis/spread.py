"""Card to card: points that every card of one sweep measured, each card's time over their mean."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from analysis.estimate import Estimate, geometric_mean
from analysis.load import once_per_frame
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


@once_per_frame
def cards_of(frame: pd.DataFrame) -> list[Cards]:
    """The cards of every sweep and kind that have points in common."""
    timed = frame[(frame["status"] == "ok") & (frame["time_us"] > 0)]
    timed = timed[timed["backend"] != "interpreter"]
    found = []
    for (gpu, sweep), rows in timed.groupby(["gpu", "sweep"], sort=True):
        cards = tuple(sorted({int(card) for card in rows["card"]}))
        if len(cards) > 1:
            named = name_variants(rows)
            points = sorted(_points(named, cards), key=lambda point: point.mean_us)
            found += [Cards(str(gpu), str(sweep), cards, points, named)] if points else []
    return found


def _points(rows: pd.DataFrame, cards: Sequence[int]) -> Iterator[Point]:
    """The points that every card measured."""
    ordered = rows.dropna(subset=POINT).sort_values([*POINT, "card", "round"])
    each = ordered.groupby([*POINT, "card"], sort=False).agg(
        time=("time_us", geometric_mean), low=("time_low_us", "min"), high=("time_high_us", "max"),
        rounds=("round", "nunique"),
    )  # fmt: skip
    firsts = records_of(ordered.drop_duplicates([*POINT]))
    alike = each.groupby(list(POINT), sort=False)
    for first, (_, mine) in zip(firsts, alike, strict=True):
        if len(mine) == len(cards):
            mean = geometric_mean(mine["time"])
            ratios = {
                int(card): Estimate(time / mean, low / mean, high / mean, int(rounds))
                for card, (time, low, high, rounds) in zip(
                    mine.index.get_level_values("card"), mine.to_numpy(), strict=True
                )
            }
            yield Point(first, mean, ratios)
