"""Shards, and the card that each belongs to: the one that it began on, else the first free."""

from __future__ import annotations

import heapq
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from experiments.sweep.client import Worker
from experiments.sweep.estimate import estimate_s
from experiments.sweep.ledger import Ledger
from experiments.sweep.points import Point


@dataclass(eq=False)
class Shard:
    """Jobs whose points are measured on one card, in all rounds.

    Attributes:
        name: Its grid, GPU and variation.
        card: Where its points are measured, or were.
        worker: Who takes them; None where they are done and their card is not at hand.
        free: Whether another card may still take it.
        visits: By round, its points in order.
        jobs: By job name, the keys and rounds that the job asks for; jobs may share points.
    """

    name: str
    card: int
    worker: Worker | None
    free: bool = False
    visits: list[list[Point]] = field(default_factory=list)
    jobs: dict[str, list[tuple[str, int]]] = field(default_factory=dict)

    @property
    def points(self) -> list[Point]:
        """The points of all rounds."""
        return [point for visit in self.visits for point in visit]

    def move(self, card: int, worker: Worker | None) -> None:
        """Gives it to another card of the same kind."""
        if card == self.card:
            return
        self.card, self.worker = card, worker
        self.visits = [[replace(p, card=card) for p in points] for points in self.visits]


def settle(
    shards: Sequence[Shard], posts: Mapping[int, Worker], ledger: Ledger | None, overwrite: bool
) -> None:
    """Sends each free shard to the card that has rows of it, and guesses where the rest goes.

    A shard that is done on whatever card stays there, and nothing of it is measured again. One that
    was begun goes on where it began: its ratios are between neighbours on one card. Only where that
    card is not at hand any more is all of it measured on another.

    The others stay free. They are spread by estimate, longest first to the card with least to do,
    until `experiments.sweep.dealing` hands each to whichever card is free first.

    Args:
        shards: All shards.
        posts: The workers that free shards may go to, by card.
        ledger: The rows there are, None to look at none.
        overwrite: Whether points with rows are measured again.
    """
    for shard in (s for s in shards if s.free and ledger):
        assert ledger is not None
        begun = _begun(shard, ledger)
        at_hand = [card for card in begun if card in posts]
        done = [card for card in [*at_hand, *begun] if _is_done(shard, card, ledger)]
        homes = at_hand if overwrite else [*done, *at_hand]
        if homes:
            shard.move(homes[0], posts.get(homes[0]))
            shard.free = False
        elif begun and not overwrite:
            print(f"{shard.name} was begun on card {begun[0]}, which is not among this sweep's "
                  "cards; all of it is measured on another", file=sys.stderr)  # fmt: skip
    loads = dict.fromkeys(posts, 0.0)
    for shard in (s for s in shards if not s.free and s.card in loads):
        loads[shard.card] += _seconds(shard, ledger, overwrite)
    heap = [(load, card) for card, load in loads.items()]
    heapq.heapify(heap)
    for shard in longest_first(s for s in shards if s.free):
        load, card = heap[0]
        shard.move(card, posts[card])
        shard.free = len(posts) > 1
        heapq.heapreplace(heap, (load + _seconds(shard), card))


def longest_first(shards: Iterable[Shard]) -> list[Shard]:
    """By estimate: what is short comes last and evens out when the cards finish."""
    return sorted(shards, key=lambda shard: -_seconds(shard))


def _begun(shard: Shard, ledger: Ledger) -> list[int]:
    """The cards that rows of its jobs were measured on, that with most of them first."""
    rows = Counter[int]()
    for name in shard.jobs:
        rows.update(ledger.cards.get(name, {}))
    return [card for card, _ in rows.most_common()]


def _is_done(shard: Shard, card: int, ledger: Ledger) -> bool:
    return all(ledger.is_done((p.key, card, p.round)) for p in shard.points)


def _seconds(shard: Shard, ledger: Ledger | None = None, overwrite: bool = False) -> float:
    skip = ledger is not None and not overwrite
    return sum(
        estimate_s(p)
        for p in shard.points
        if not (skip and ledger is not None and ledger.is_done(p.identity))
    )
