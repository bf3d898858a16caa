"""Card to card: each card's time over the mean of all, in short; every point in the CSV."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from analysis.comparison import noise
from analysis.estimate import geometric_mean
from analysis.format import Table
from analysis.load import Inputs
from analysis.spread import NEEDS, SHORT_US
from analysis.spread.points import Cards, Point, cards_of
from analysis.tables.named import NamedTable
from experiments.data.cards import card_of

PARTS: tuple[tuple[str, Callable[[Point], bool]], ...] = (
    (f"{SHORT_US:g} µs and more", lambda point: point.mean_us >= SHORT_US),
    (f"below {SHORT_US:g} µs", lambda point: point.mean_us < SHORT_US),
)
HEADS = ("GPU", "sweep", "points", "count", "card", "mean", "5 % to 95 % of points", "least",
         "most", "most at")  # fmt: skip
EVERY = ("gpu", "sweep", "operation", "variant", "rows", "cols", "dtype", "timer", "cache", "card",
         "rounds", "mean_us", "ratio", "ratio_low", "ratio_high")  # fmt: skip


def card_to_card(material: Inputs) -> NamedTable | str:
    """A line a card and range of times, and one for the slowest over the fastest."""
    found = cards_of(material.frame)
    if not found:
        return f"card_to_card needs {NEEDS}"
    lines = [line for cards in found for line in _lines(cards)]
    table = Table("Card to card: a card's time over the mean of all", HEADS, lines, _notes())
    every = [line for cards in found for point in cards.points for line in _every(cards, point)]
    return NamedTable("card_to_card", table, Table(table.title, EVERY, every))


def _lines(cards: Cards) -> list[list[str]]:
    lines = []
    for told, inside in PARTS:
        points = [point for point in cards.points if inside(point)]
        if not points:
            continue
        head = [card_of(cards.gpu).name, cards.sweep, told, f"{len(points):,}"]
        for card in cards.cards:
            ratios = [point.ratios[card].value for point in points]
            lines.append([*head, str(card), *_cells(ratios, points)])
        spreads = [point.spread for point in points]
        lines.append([*head, "slowest / fastest", *_cells(spreads, points)])
    return lines


def _cells(ratios: Sequence[float], points: Sequence[Point]) -> list[str]:
    mean = geometric_mean(ratios)
    low, high = np.quantile(ratios, [0.05, 0.95])
    most = int(np.argmax(ratios))
    told = f"{low:.4f}–{high:.4f}"
    return [f"{mean:.4f}", told, f"{min(ratios):.4f}", f"{ratios[most]:.4f}", points[most].name]


def _notes() -> list[str]:
    gpu, ranges = noise.recorded()
    floors = [f"{'above' if r.below_us is None else 'below'} "
              f"{ranges[-2].below_us if r.below_us is None else r.below_us:g} µs "
              f"{100 * r.floor:.2g} %" for r in ranges]  # fmt: skip
    return [
        "Points that every card measured, in one sweep. The mean is over cards and geometric, and "
        "so is that over points. A card is told by its index on its host.",
        f"For comparison, two sweeps on one card ({gpu}): 5 % of points differ by more than, each "
        f"range from the one before it, {', '.join(floors)}.",
    ]


def _every(cards: Cards, point: Point) -> list[list[str]]:
    place = [str(point.row[name]) for name in EVERY[2:9]]
    return [
        [cards.gpu, cards.sweep, *place, str(card), str(ratio.rounds), f"{point.mean_us:.6g}",
         f"{ratio.value:.6g}", f"{ratio.low:.6g}", f"{ratio.high:.6g}"]
        for card, ratio in point.ratios.items()
    ]  # fmt: skip
