"""The one card of a shard's job: its worker, its number, and the rows of cards before it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from experiments.slurm.records import card_number
from experiments.sweep.client import Worker
from experiments.sweep.crew import Crew
from experiments.sweep.ledger import Ledger
from experiments.sweep.planning import ROOF, Plan
from experiments.sweep.points import Point


class ShardLedger(Ledger):
    """A shard's rows, a point known by key and round: it may have been begun on another card."""

    def _slot(self, identity: tuple[str, int, int]) -> tuple[str, int, int]:
        return identity[0], 0, identity[2]


@dataclass
class ShardCrew(Crew):
    """The one worker of a node, on its card where Slurm gave one."""

    needs_card: bool = False

    def worker(self, device: str, card: int) -> Worker:
        """The worker on the card."""
        return super().worker("cuda" if device == "auto" and self.needs_card else device, card)


def number_card(planned: Plan, out: Path, sweep: str) -> None:
    """Has the points know their card by its number in the sweep, as their rows will."""
    for shard in planned.rounds[0]:
        assert shard.worker is not None
        number = card_number(out, sweep, shard.worker.hello.get("serial"))
        shard.move(number, shard.worker)


def with_roofs(todo: Iterable[Point], own: Iterable[Point], ledger: Ledger) -> list[Point]:
    """The points, and beside each the roof where that was measured on another card."""
    missing = {point.identity: point for point in todo}
    places = {(p.job.neighbours, p.place, p.round) for p in missing.values()}

    def lacks_roof(point: Point) -> bool:
        row = ledger.latest(point.identity)
        return (
            point.variant["operation"] == ROOF
            and (point.job.neighbours, point.place, point.round) in places
            and row is not None
            and row.card != point.card
        )

    return [point for point in own if point.identity in missing or lacks_roof(point)]
