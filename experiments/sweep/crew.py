"""The sweep's workers: which card each is on, the cards' locks, and their start side by side."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path

from experiments.errors import UserError
from experiments.sweep.card_lock import held
from experiments.sweep.client import Worker, WorkerError
from experiments.sweep.jobs import Job


@dataclass
class Crew:
    """The sweep's workers, one for each device and card, started when first asked for.

    Attributes:
        log: Takes what workers print.
        locked: Whether the cards are this sweep's alone until it is dismissed; a dry run times
            nothing and waits for nobody.
        patience_s: How long a worker may take to end by itself when it is dismissed.
        workers: By device and card.
    """

    log: Path
    locked: bool = True
    patience_s: float = 0.0
    workers: dict[tuple[str, int], Worker] = field(default_factory=dict)
    _locks: ExitStack = field(default_factory=ExitStack)

    def worker(self, device: str, card: int) -> Worker:
        """The worker on a card."""
        if (device, card) not in self.workers:
            self.workers[device, card] = Worker(device, card, self.log)
        return self.workers[device, card]

    def places(self, jobs: Sequence[Job], cards: Sequence[int]) -> Callable[[Job], Worker]:
        """Locks the cards that jobs run on, sets their workers going, and tells who describes each.

        A job whose card is not pinned is described on the first of ``cards``.

        Raises:
            UserError: a lock cannot be opened.
        """

        def place(job: Job) -> Worker:
            device, pinned = job.config["gpu"]["device"], job.config["gpu"]["card"]
            if device == "cpu":
                return self.worker(device, 0)
            # a card that was named must be there, and not give way to the CPU
            named = pinned is not None or list(cards) != [0]
            return self.worker("cuda" if named else device, cards[0] if pinned is None else pinned)

        for job in jobs:
            place(job)
        on_card = [job for job in jobs if job.config["gpu"]["device"] != "cpu"]
        if len(cards) > 1 and any(job.config["gpu"]["card"] is None for job in on_card):
            for card in cards:
                self.worker("cuda", card)
        wanted = self._on_cards()
        if self.locked:
            locks = self._locks.enter_context(held(worker.card for worker in wanted))
            for worker in wanted:
                worker.lock = locks.get(worker.card)
        for worker in self.workers.values():
            with suppress(WorkerError):  # said again, with a name, when it is to answer
                worker.spawn()
        return place

    def posts(self, cards: Sequence[int]) -> dict[int, Worker]:
        """The workers that a shard may be sent to, by card.

        Raises:
            UserError: one did not come up, or the cards are of several kinds.
        """
        posts = {worker.card: worker for worker in self._on_cards() if worker.card in cards}
        for card, worker in posts.items():
            try:
                worker.start()
            except WorkerError as error:
                raise UserError(f"card {card}: {error}") from None
        kinds = {card: worker.hello["device"]["name"] for card, worker in posts.items()}
        other = next((card for card in cards if kinds[card] != kinds[cards[0]]), None)
        if other is not None:
            raise UserError(
                f"card {cards[0]} is {kinds[cards[0]]}, card {other} {kinds[other]}: a shard may "
                "land on either; name cards of one kind in hydra.launcher.cards"
            )
        return posts

    def _on_cards(self) -> list[Worker]:
        return [worker for (device, _), worker in self.workers.items() if device != "cpu"]

    def dismiss(self) -> None:
        """Ends all workers and lets go of their cards."""
        for worker in self.workers.values():
            worker.stop(self.patience_s)
        self._locks.close()
