"""Dealing: a card that is free takes the next shard, the longest first."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence

from experiments.sweep.client import Worker
from experiments.sweep.homes import Shard, longest_first
from experiments.sweep.points import Point


class Deal:
    """Hands the points of a sweep to its cards, a shard's visit at a time; thread-safe.

    Attributes:
        total: How many points there are to measure, as far as it is known where they will be.
        cards: The cards that may have something to do.
        rounds: How many rounds there are.
        workers: All that may take a point.
    """

    def __init__(
        self,
        rounds: Sequence[Sequence[Shard]],
        posts: Mapping[int, Worker],
        wanted: Callable[[Iterable[Point]], list[Point]],
    ) -> None:
        """Of ``rounds``, the order of the shards in each; ``wanted`` picks a visit's points."""
        self._posts, self._wanted = posts, wanted
        self._threads = threading.Lock()
        self._taken: set[tuple[str, int, int]] = set()
        self._left = [
            [s for s in order if s.worker and not s.free]
            + longest_first(s for s in order if s.free)
            for order in rounds
        ]
        self._promised = {
            (shard, i): len(self._points(shard, i))
            for i, order in enumerate(self._left)
            for shard in order
        }
        self._taken.clear()  # those were where points are guessed to go
        self.total = sum(self._promised.values())
        self.rounds = len(rounds)
        first = self._left[0]
        self.workers = {*posts.values(), *(s.worker for s in first if s.worker)}
        self.cards = sorted(
            {s.card for s in first} | {*(posts if any(s.free for s in first) else ())}
        )

    def next(self, card: int, round_: int) -> tuple[Worker, list[Point]] | None:
        """A card's next visit in a round: its own shards first, then the longest free one."""
        with self._threads:
            left = self._left[round_]
            own = (s for s in left if s.card == card and not s.free)
            free = (s for s in left if s.free and card in self._posts)
            shard = next(own, None) or next(free, None)
            if shard is None:
                return None
            left.remove(shard)
            if shard.free:
                shard.move(card, self._posts[card])
                shard.free = False
            points = self._points(shard, round_)
            self.total += len(points) - self._promised[shard, round_]
            assert shard.worker is not None
            return shard.worker, points

    def _points(self, shard: Shard, round_: int) -> list[Point]:
        """Those of a visit that are wanted and were not handed out with another shard."""
        wanted = self._wanted(shard.visits[round_])
        points = [p for p in wanted if p.identity not in self._taken]
        self._taken.update(p.identity for p in points)
        return points
