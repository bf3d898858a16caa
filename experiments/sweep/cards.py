"""A host's cards: which CUDA shows, the lock of each, and the workers on them.

Never two timings on one card at a time, whoever measures. A card's lock is a file that the kernel
locks (``flock``) and lets go of when the last process that has it open is gone, however it ended.
It lies where all users of the host may write, and is named by the card's PCI bus id, which no
numbering of ``CUDA_VISIBLE_DEVICES`` changes. Containers without a folder in common do not see each
other's. A CPU has no lock: whoever sweeps on it shares it with the whole machine anyhow.
"""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import os
import stat
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

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
    if not listed or any(type(card) is not int or card < 0 for card in cards):
        raise UserError(
            f"hydra.launcher.cards={cards}; name cards by index, as in [0,1], or all of them by all"
        )
    if len(set(cards)) != len(cards):
        raise UserError(f"hydra.launcher.cards={cards} names a card twice")
    return list(cards)


def visible_cards() -> list[str]:
    """The PCI bus ids of the visible cards, by the index that ``card=`` names them with.

    ``CUDA_VISIBLE_DEVICES`` chooses and orders them, by index or UUID; an entry that names no card
    hides those after it, as CUDA has it. Instances of one card (MIG) have one bus id. Empty
    without NVML, without cards, and where all are hidden.
    """
    with _nvml() as nvml:
        if nvml is None:
            return []
        handles = [nvml.nvmlDeviceGetHandleByIndex(i) for i in range(nvml.nvmlDeviceGetCount())]
        limited = os.environ.get("CUDA_VISIBLE_DEVICES")
        if limited is not None:
            found = (_handle(nvml, handles, entry.strip()) for entry in limited.split(","))
            handles = list(itertools.takewhile(lambda handle: handle is not None, found))
        return [_text(nvml.nvmlDeviceGetPciInfo(handle).busId).lower() for handle in handles]


@contextlib.contextmanager
def _nvml() -> Iterator[ModuleType | None]:
    try:
        import pynvml

        pynvml.nvmlInit()
    except Exception:  # no library, no driver or no permission: all mean that nothing is known
        yield None
        return
    try:
        yield pynvml
    finally:
        pynvml.nvmlShutdown()


def _handle(nvml: ModuleType, handles: list[Any], entry: str) -> Any:
    """The card that an entry of ``CUDA_VISIBLE_DEVICES`` names, None where it names none."""
    if entry.isdecimal():
        return handles[int(entry)] if int(entry) < len(handles) else None
    with contextlib.suppress(Exception):  # NVML raises a class of its own for each refusal
        if entry.startswith("MIG-"):
            instance = nvml.nvmlDeviceGetHandleByUUID(entry)
            return nvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(instance)
        if entry.startswith("GPU-"):  # CUDA takes the beginning of a UUID as well
            uuids = (_text(nvml.nvmlDeviceGetUUID(handle)) for handle in handles)
            return next((h for h, uuid in zip(handles, uuids, strict=True)
                         if uuid.startswith(entry)), None)  # fmt: skip
    return None


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value  # older bindings give bytes


@contextlib.contextmanager
def held(cards: Iterable[int], wait: bool = True) -> Iterator[dict[int, int]]:
    """Holds the locks of visible cards, waiting for each that another process has.

    Cards are taken in the order of their bus ids, so that of two sweeps that want several, none
    waits for a card of the other's while it holds one that the other waits for.

    Yields:
        By card, the descriptor of its lock; a process that inherits it holds the lock as well.
        Cards that NVML does not know have none.

    Raises:
        UserError: a lock cannot be opened.
        BlockingIOError: another process has one, and this one is not to wait.
    """
    wanted = set(cards)
    seen = visible_cards() if wanted else []
    known = sorted((seen[card], card) for card in wanted if card < len(seen))
    taken: dict[str, int] = {}
    try:
        for bus_id, card in known:
            if bus_id not in taken:  # instances of one card have one lock
                taken[bus_id] = _open(lock_of(bus_id), card)
                _take(taken[bus_id], card, wait)
        yield {card: taken[bus_id] for bus_id, card in known}
    finally:
        for lock in taken.values():
            os.close(lock)


def lock_of(bus_id: str) -> Path:
    """The file that stands for a card, the same for every user of this host."""
    shared = (f for f in LOCK_FOLDERS if f.is_dir() and f.stat().st_mode & 0o1777 == 0o1777)
    return next(shared, LOCK_FOLDERS[-1]) / f"softmax-roofline-{bus_id}.lock"


def _open(path: Path, card: int) -> int:
    """Makes the file or opens it; in a folder of everybody's it may be anything.

    Where it is there it is opened without ``O_CREAT``: Linux may refuse that with another user's
    file (``fs.protected_regular``). A link is never followed.
    """
    flags = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        try:
            lock = os.open(path, flags | os.O_CREAT | os.O_EXCL, FOR_ALL)
            os.fchmod(lock, FOR_ALL)  # whatever the umask
        except FileExistsError:
            lock = os.open(path, flags)
        if not stat.S_ISREG(os.fstat(lock).st_mode):
            os.close(lock)
            raise OSError(0, "it is not a plain file")
    except OSError as error:
        why = f"{path}, the lock of card {card}, cannot be opened: {error.strerror}; remove it"
        raise UserError(why) from None
    return lock


def _take(lock: int, card: int, wait: bool) -> None:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        if not wait:
            raise
        holder = os.pread(lock, 20, 0).decode(errors="replace").strip()
        whose = f"process {holder}" if holder.isdecimal() else "another process"
        message = f"card {card} is in use by {whose} of another sweep; waiting"
        print(message, file=sys.stderr, flush=True)
        fcntl.flock(lock, fcntl.LOCK_EX)
        print(f"card {card} is free; going on", file=sys.stderr)
    os.ftruncate(lock, 0)
    os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)


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
        required: Whether jobs must run on a card, so that a CPU cannot stand in.
        workers: By device and card.
    """

    log: Path
    cards: Sequence[int]
    locked: bool = True
    patience_s: float = 0.0
    measures: bool = False
    required: bool = False
    workers: dict[tuple[str, int], Worker] = field(default_factory=dict)
    _locks: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)
    _held: dict[int, int | None] = field(default_factory=dict)  # by card, its lock if it has one
    _busy: bool = False  # another sweep had one of the cards

    def worker(self, device: str, card: int) -> Worker:
        """The worker on a card."""
        if (device, card) not in self.workers:
            self.workers[device, card] = Worker(device, card, self.log, self.measures)
        return self.workers[device, card]

    def start(self, jobs: Iterable[Job], wait: bool = True) -> Callable[[Job], Worker]:
        """Locks the cards that jobs run on, starts their workers, and gives who describes each.

        A job whose card is not pinned is described on the first card.

        Args:
            jobs: Those that are known; later calls may add to them.
            wait: Whether to wait for a card that another sweep has. Otherwise all workers and
                cards are given back then, and the next call that waits starts them.

        Raises:
            UserError: a lock cannot be opened.
        """
        for job in jobs:
            self.place(job)
            if len(self.cards) > 1 and not _pinned(job):
                for card in self.cards:
                    self.worker("cuda", card)
        if self.locked and not self._lock(wait):
            return self.place
        for worker in self.workers.values():
            with contextlib.suppress(WorkerError):  # raised again when it is asked something
                worker.spawn()
        return self.place

    def place(self, job: Job) -> Worker:
        """The worker that describes a job."""
        device, pinned = job.config["gpu"]["device"], job.config["gpu"]["card"]
        if device == "cpu":
            return self.worker(device, 0)
        # a card that was named must be there, and not give way to the CPU
        named = self.required or pinned is not None or list(self.cards) != [0]
        card = self.cards[0] if pinned is None else pinned
        return self.worker("cuda" if named else device, card)

    def _lock(self, wait: bool) -> bool:
        """Locks the cards of all workers; whether all are locked now."""
        cards = {worker.card for worker in self._on_cards()} - self._held.keys()
        if cards and self._busy and not wait:
            return False
        if cards and wait and self._held:  # whoever waits holds only what comes earlier in order
            cards |= self._held.keys()
            self.close()
        try:
            locks = self._locks.enter_context(held(cards, wait))
        except BlockingIOError:
            self.close()
            self._busy = True
            return False
        self._held |= {card: locks.get(card) for card in cards}
        for worker in self._on_cards():
            worker.lock = self._held[worker.card]
        return True

    def interchangeable(self) -> dict[int, Worker]:
        """By card, the workers that a shard without a card of its own may be assigned to.

        Raises:
            UserError: one did not come up, or the cards are of several kinds.
        """
        workers = {w.card: w for w in self._on_cards() if w.card in self.cards}
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

    def _on_cards(self) -> list[Worker]:
        return [worker for (device, _), worker in self.workers.items() if device != "cpu"]

    def close(self) -> None:
        """Ends all workers and lets go of their cards."""
        for worker in self.workers.values():
            worker.stop(self.patience_s)
        self._locks.close()
        self._held.clear()


def _pinned(job: Job) -> bool:
    return job.config["gpu"]["device"] == "cpu" or job.config["gpu"]["card"] is not None
