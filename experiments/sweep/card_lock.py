"""A lock for each physical card: never two timings on one at a time, whoever measures.

A lock is a file that the kernel locks (``flock``) and lets go of when the last process that has it
open is gone, however it ended; so nothing is to be cleaned up after a crash. It lies where all
users of the host may write, and is named by the card's PCI bus id, which no numbering of
``CUDA_VISIBLE_DEVICES`` changes. Containers without a folder in common do not see each other's.

A CPU has no lock: whoever sweeps on it shares it with the whole machine anyhow.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from experiments.errors import UserError
from experiments.sweep.visible import visible_cards

FOLDERS = (Path("/run/lock"), Path("/tmp"))
FOR_ALL = 0o666  # a lock that only its first user can open would lock the others out


@contextlib.contextmanager
def held(cards: Iterable[int]) -> Iterator[dict[int, int]]:
    """Holds the locks of visible cards, waiting for each that another process has.

    Cards are taken in the order of their bus ids, so that of two sweeps that want several, none
    waits for a card of the other's while it holds one that the other waits for.

    Yields:
        By card, the descriptor of its lock; a process that inherits it holds the lock as well.
        Cards that NVML does not tell have none.

    Raises:
        UserError: a lock cannot be opened.
    """
    wanted = set(cards)
    seen = visible_cards() if wanted else []
    known = sorted((seen[card], card) for card in wanted if card < len(seen))
    taken: dict[str, int] = {}
    try:
        for bus_id, card in known:
            if bus_id not in taken:  # instances of one card have one lock
                taken[bus_id] = _open(lock_of(bus_id), card)
                _take(taken[bus_id], card)
        yield {card: taken[bus_id] for bus_id, card in known}
    finally:
        for lock in taken.values():
            os.close(lock)


def lock_of(bus_id: str) -> Path:
    """The file that stands for a card, the same for every user of this host."""
    folder = next((f for f in FOLDERS if _is_everybodys(f)), FOLDERS[-1])
    return folder / f"softmax-roofline-{bus_id}.lock"


def _is_everybodys(folder: Path) -> bool:
    try:
        mode = folder.stat().st_mode
    except OSError:
        return False
    return stat.S_ISDIR(mode) and mode & 0o1777 == 0o1777


def _open(path: Path, card: int) -> int:
    """Opens the file or makes it; in a folder of everybody's it may be anything.

    Where it is there it is opened without ``O_CREAT``: Linux may refuse that with another user's
    file (``fs.protected_regular``). A link is never followed.
    """
    flags = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        try:
            lock = os.open(path, flags)
        except FileNotFoundError:
            with contextlib.suppress(FileExistsError):
                made = os.open(path, flags | os.O_CREAT | os.O_EXCL, FOR_ALL)
                os.fchmod(made, FOR_ALL)  # whatever the umask
                return made
            lock = os.open(path, flags)  # somebody else has just made it
    except OSError as error:
        raise _refusal(path, card, str(error.strerror)) from None
    if not stat.S_ISREG(os.fstat(lock).st_mode):
        os.close(lock)
        raise _refusal(path, card, "it is no plain file")
    return lock


def _refusal(path: Path, card: int, why: str) -> UserError:
    return UserError(f"{path}, the lock of card {card}, cannot be opened: {why}; remove it")


def _take(lock: int, card: int) -> None:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.pread(lock, 20, 0).decode(errors="replace").strip()
        whose = f"process {holder}" if holder.isdecimal() else "another process"
        print(f"card {card} is in use by {whose} of another sweep; waiting", file=sys.stderr)
        sys.stderr.flush()
        fcntl.flock(lock, fcntl.LOCK_EX)
        print(f"card {card} is free; going on", file=sys.stderr)
    os.ftruncate(lock, 0)
    os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)
