"""A host's cards: their locks, and the workers on them.

Only one sweep at a time measures on a card, whoever its user is. A card's lock is a file in a
folder that all users of the host can write, named after the card's PCI bus id. The system releases
the lock when the sweep's process ends. Containers that share no folder do not see each other's
locks. The CPU is not locked, and no card is if ``CUDA_VISIBLE_DEVICES`` is not a list of numbers.
"""

import contextlib
import os
import re
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from experiments.data.cards import ask_nvml
from experiments.data.errors import UserError
from experiments.parent.client import Worker, WorkerError
from experiments.parent.jobs import Job

LOCK_FOLDERS = (Path("/run/lock"), Path("/tmp"))
FOR_ALL = 0o666  # mode of a lock's file: every user of the host must be able to open it


def cards_of(cards: Any) -> list[int]:
    """The card indices of the launcher's option: a list of indices, or ``all`` visible cards.

    Raises:
        UserError: it is not a list of different indices, or NVML shows no card.
    """
    found = [*range(len(visible_cards()))] if cards == "all" else cards
    listed = isinstance(found, Sequence) and not isinstance(found, str) and found
    if not listed or any(type(one) is not int or one < 0 or found.count(one) > 1 for one in found):
        raise UserError(
            f"hydra.launcher.cards={cards}; name cards by index, as in [0,1], and each once, or "
            "all where NVML shows some"
        )
    return sorted(found)


def visible_cards() -> list[str]:
    """The PCI bus ids of the visible cards, in the order of the indices that ``gpu.card=`` takes.

    ``CUDA_VISIBLE_DEVICES`` chooses and orders them. Empty without NVML, without cards, and if
    that variable names a card by anything but a number.
    """
    count = ask_nvml("DeviceGetCount") or 0
    handles = [ask_nvml("DeviceGetHandleByIndex", index) for index in range(count)]
    ids = [ask_nvml("DeviceGetPciInfo", handle).busId.lower() for handle in handles]
    limited = os.environ.get("CUDA_VISIBLE_DEVICES")
    if limited is None:
        return ids
    named = limited.split(",")
    plain = all(one.isdecimal() and int(one) < len(ids) for one in named)
    return [ids[int(one)] for one in named] if plain else []


def lock_of(bus_id: str) -> Path:
    """The path of a card's lock, the same for every user of this host."""
    shared = (f for f in LOCK_FOLDERS if f.is_dir() and f.stat().st_mode & 0o1777 == 0o1777)
    return next(shared, LOCK_FOLDERS[-1]) / f"softmax-roofline-{bus_id}.lock"


def lock_cards(cards: Iterable[int]) -> contextlib.ExitStack:
    """Locks the cards of these indices until the stack is closed; waits for those in use.

    Cards are taken in the order of their bus ids, so that two sweeps never wait for each other.

    Raises:
        UserError: a lock cannot be opened.
    """
    seen = visible_cards()
    known = {seen[card]: card for card in cards if card < len(seen)}
    if re.search("GPU-|MIG-", os.environ.get("CUDA_VISIBLE_DEVICES", "")):
        print("CUDA_VISIBLE_DEVICES has no numbers: cards are not locked", file=sys.stderr)
    with contextlib.ExitStack() as held:
        for bus_id, card in sorted(known.items()):
            path = lock_of(bus_id)
            lock = FileLock(path, mode=FOR_ALL, thread_local=False)
            try:
                with contextlib.suppress(Timeout):
                    lock.acquire(timeout=0)
                if not lock.is_locked:
                    waiting = f"card {card} is in use by another sweep; waiting"
                    print(waiting, file=sys.stderr, flush=True)
                    lock.acquire()
            except OSError as error:
                why = f"{path}, the lock of card {card}, cannot be opened: {error.strerror}"
                raise UserError(f"{why}; remove it") from None
            held.callback(lock.release)
        return held.pop_all()


@dataclass
class WorkerPool:
    """The sweep's workers, one for each device and card, started when first asked for."""

    log: Path  # the file for what workers print
    cards: Sequence[int]  # indices of the cards for jobs that pin none
    # whether workers prepare to measure and their cards stay locked until the pool is closed; false
    # in a dry run, which times nothing and need not wait for a card
    measures: bool = True
    patience_s: float = 0.0  # how long `close` waits for a worker to exit before it kills it
    # by device, card, and the outside kernel's file (None for the kernels of this project)
    workers: dict[tuple[str, int, str | None], Worker] = field(default_factory=dict)
    _locks: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)
    _locked: set[int] = field(default_factory=set)

    def start(self, jobs: Iterable[Job]) -> None:
        """Starts these jobs' workers and locks their cards; `UserError` if a lock cannot open."""
        for job in jobs:
            for card in self.cards:
                self.worker_of(job, card)
        cards = {card for device, card, _ in self.workers if device != "cpu"}
        if self.measures and cards - self._locked:
            self.close()  # locks are taken in order only, so first release those that it has
            self._locks, self._locked = lock_cards(cards), cards
        for worker in self.workers.values():
            with contextlib.suppress(WorkerError):  # its first request raises this again
                worker.spawn()

    def worker_of(self, job: Job, card: int | None = None) -> Worker:
        """The worker of a job, on the card that it pins, else on ``card``, else on the first."""
        device, own = job.config["gpu"]["device"], job.config["gpu"]["card"]
        file = job.config["kernel"].get("file")
        if device == "cpu":
            return self.worker(device, 0, file)
        # the CPU must not replace a card that the user named: ``auto`` becomes ``cuda``
        named = own is not None or list(self.cards) != [0]
        own = (self.cards[0] if card is None else card) if own is None else own
        return self.worker("cuda" if named else device, own, file)

    def worker(self, device: str, card: int, file: str | None = None) -> Worker:
        """The worker of a card; each file from outside has its own, so it cannot affect others."""
        key = device, card, file
        if key not in self.workers:
            checker = None if file is None else self.worker(device, card)
            self.workers[key] = Worker(device, card, self.log, self.measures, checker)
        return self.workers[key]

    def on_card(self, card: int) -> int:
        """How many of its workers use a card."""
        return sum(device != "cpu" and at == card for device, at, _ in [*self.workers])

    def cards_of_one_kind(self) -> Sequence[int]:
        """The cards that shards may be assigned to, all of one kind; starts their workers.

        Raises:
            UserError: a worker did not start, or the cards are of several kinds.
        """
        kinds: dict[str, int] = {}
        for (device, card, _), worker in self.workers.items():
            if device != "cpu" and card in self.cards:
                try:
                    kinds.setdefault(worker.start()["device"]["name"], card)
                except WorkerError as error:
                    raise UserError(f"card {card}: {error}") from None
        if len(kinds) > 1:
            named = ", ".join(f"card {card} is {kind}" for kind, card in kinds.items())
            raise UserError(f"{named}: hydra.launcher.cards takes cards of one kind")
        return self.cards

    def close(self) -> None:
        """Ends all workers and unlocks their cards."""
        for worker in self.workers.values():
            worker.stop(self.patience_s)
        self._locks.close()
        self._locked = set()
