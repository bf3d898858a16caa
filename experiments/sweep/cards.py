"""A host's cards: which CUDA shows, the lock of each, and the workers on them.

Never two timings on one card at a time, whoever measures. A card's lock is a file where all users
of the host may write, named by the card's PCI bus id, which no numbering of
``CUDA_VISIBLE_DEVICES`` changes; it is let go of when its process ends, however it ends. Containers
without a folder in common do not see each other's locks. A CPU has no lock.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from experiments.errors import UserError
from experiments.sweep.client import Worker, WorkerError
from experiments.sweep.jobs import Job

LOCK_FOLDERS = (Path("/run/lock"), Path("/tmp"))
FOR_ALL = 0o666  # a lock that only its first user can open would lock the others out


def cards_of(cards: Any) -> list[int]:
    """The launcher's cards: a list of indices, or ``all`` for every visible one.

    Raises:
        UserError: it is not a list of different indices, or there is no card.
    """
    if cards == "all":
        cards = range(len(visible_cards()))
        if not cards:
            raise UserError(
                "hydra.launcher.cards=all: NVML shows no card here; name them by index, as in [0,1]"
            )
    listed = isinstance(cards, Sequence) and not isinstance(cards, str) and cards
    if (
        not listed
        or any(type(card) is not int or card < 0 for card in cards)
        or len({*cards}) < len(cards)
    ):
        raise UserError(
            f"hydra.launcher.cards={cards}; name cards by index, as in [0,1], or all of them by "
            "all, and each once"
        )
    return list(cards)


def visible_cards() -> list[str]:
    """The PCI bus ids of the visible cards, by the index that ``card=`` names them with.

    ``CUDA_VISIBLE_DEVICES`` chooses and orders them, by index or UUID; an entry that names no card
    hides those after it, as CUDA has it. Instances of one card (MIG) have one bus id. Empty
    without NVML, without cards, and where all are hidden.
    """
    try:
        import pynvml

        pynvml.nvmlInit()
    except Exception:  # no library, no driver or no permission: all mean that nothing is known
        return []
    try:
        handles = [pynvml.nvmlDeviceGetHandleByIndex(i) for i in range(pynvml.nvmlDeviceGetCount())]
        limited = os.environ.get("CUDA_VISIBLE_DEVICES")
        if limited is not None:
            found = (_handle(pynvml, handles, entry.strip()) for entry in limited.split(","))
            handles = list(itertools.takewhile(lambda handle: handle is not None, found))
        return [_text(pynvml.nvmlDeviceGetPciInfo(handle).busId).lower() for handle in handles]
    finally:
        pynvml.nvmlShutdown()


def _handle(nvml: Any, handles: list[Any], entry: str) -> Any:
    """The card that an entry of ``CUDA_VISIBLE_DEVICES`` names, None where it names none."""
    if entry.isdecimal():
        return handles[int(entry)] if int(entry) < len(handles) else None
    with contextlib.suppress(Exception):  # NVML raises a class of its own for each refusal
        if entry.startswith("MIG-"):
            instance = nvml.nvmlDeviceGetHandleByUUID(entry)
            return nvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(instance)
        if entry.startswith("GPU-"):  # CUDA takes the beginning of a UUID as well
            named = (h for h in handles if _text(nvml.nvmlDeviceGetUUID(h)).startswith(entry))
            return next(named, None)
    return None


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value  # older bindings give bytes


def lock_of(bus_id: str) -> Path:
    """The file that stands for a card, the same for every user of this host."""
    shared = (f for f in LOCK_FOLDERS if f.is_dir() and f.stat().st_mode & 0o1777 == 0o1777)
    return next(shared, LOCK_FOLDERS[-1]) / f"softmax-roofline-{bus_id}.lock"


def take(cards: Iterable[int]) -> contextlib.ExitStack:
    """Locks visible cards until the stack is closed, waiting for each that another process has.

    Cards are taken in the order of their bus ids, so that of two sweeps that want several, none
    waits for a card of the other's while it holds one that the other waits for. Cards that NVML
    does not know have no lock.

    Raises:
        UserError: a lock cannot be opened.
    """
    wanted = set(cards)
    seen = visible_cards() if wanted else []
    known = {seen[card]: card for card in wanted if card < len(seen)}  # MIG: one lock a card
    with contextlib.ExitStack() as held:
        for bus_id, card in sorted(known.items()):
            path = lock_of(bus_id)
            lock = FileLock(path, mode=FOR_ALL, thread_local=False)
            try:
                try:
                    lock.acquire(timeout=0)
                except Timeout:
                    waiting = f"card {card} is in use by another sweep; waiting"
                    print(waiting, file=sys.stderr, flush=True)
                    lock.acquire()
                    print(f"card {card} is free; going on", file=sys.stderr)
            except OSError as error:
                why = f"{path}, the lock of card {card}, cannot be opened: {error.strerror}"
                raise UserError(f"{why}; remove it") from None
            held.callback(lock.release)
        return held.pop_all()


@dataclass
class WorkerPool:
    """The sweep's workers, one for each device and card, started when first asked for.

    Attributes:
        log: Takes what workers print.
        cards: The cards that jobs without a card of their own may run on.
        locked: Whether the cards are this sweep's alone until the pool is closed; a dry run times
            nothing and waits for nobody.
        patience_s: How long a worker may take to end by itself when the pool is closed.
        measures: Whether workers prepare for measuring as they start.
        workers: By device and card.
    """

    log: Path
    cards: Sequence[int]
    locked: bool = True
    patience_s: float = 0.0
    measures: bool = False
    workers: dict[tuple[str, int], Worker] = field(default_factory=dict)
    _locks: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)
    _locked: set[int] = field(default_factory=set)

    def start(self, jobs: Iterable[Job]) -> None:
        """Locks the cards that jobs run on, and starts the workers; later calls may add jobs.

        Raises:
            UserError: a lock cannot be opened.
        """
        for job in jobs:
            self.place(job)
            if len(self.cards) > 1 and not pinned(job):
                for card in self.cards:
                    self.worker("cuda", card)
        cards = {card for device, card in self.workers if device != "cpu"}
        if self.locked and cards - self._locked:
            self.close()  # whoever waits holds only what comes earlier in the order
            self._locks, self._locked = take(cards), cards
        for worker in self.workers.values():
            with contextlib.suppress(WorkerError):  # raised again when it is asked something
                worker.spawn()

    def place(self, job: Job) -> Worker:
        """The worker that describes a job, on the first card if the job's is not pinned."""
        device, card = job.config["gpu"]["device"], job.config["gpu"]["card"]
        if device == "cpu":
            return self.worker(device, 0)
        # a card that was named must be there, and not give way to the CPU
        named = card is not None or list(self.cards) != [0]
        return self.worker("cuda" if named else device, self.cards[0] if card is None else card)

    def worker(self, device: str, card: int) -> Worker:
        """The worker on a card."""
        if (device, card) not in self.workers:
            self.workers[device, card] = Worker(device, card, self.log, self.measures)
        return self.workers[device, card]

    def interchangeable(self) -> dict[int, Worker]:
        """By card, the workers that a shard without a card of its own may be assigned to.

        Raises:
            UserError: one did not come up, or the cards are of several kinds.
        """
        workers = {
            card: worker
            for (device, card), worker in self.workers.items()
            if device != "cpu" and card in self.cards
        }
        kinds: dict[str, int] = {}
        for card, worker in workers.items():
            try:
                kinds.setdefault(worker.start()["device"]["name"], card)
            except WorkerError as error:
                raise UserError(f"card {card}: {error}") from None
        if len(kinds) > 1:
            named = ", ".join(f"card {card} is {kind}" for kind, card in kinds.items())
            raise UserError(
                f"{named}: a shard may land on either; name cards of one kind in "
                "hydra.launcher.cards"
            )
        return workers

    def close(self) -> None:
        """Ends all workers and lets go of their cards."""
        for worker in self.workers.values():
            worker.stop(self.patience_s)
        self._locks.close()
        self._locked = set()


def pinned(job: Job) -> bool:
    """Whether a job names the device it runs on."""
    return job.config["gpu"]["device"] == "cpu" or job.config["gpu"]["card"] is not None
