"""Which of the processes on a card are this sweep's own."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path


def strangers(
    pids: Sequence[int],
    *,
    own: int | None = None,
    family: int | None = None,
    parent_of: Callable[[int], int | None] | None = None,
) -> int | None:
    """How many of the compute processes on a card do not belong to this sweep.

    The sweep's are its parent's descendants: this worker, its children, and workers beside it.

    In a container the driver tells the host's numbers of processes, and none of them is this
    worker's own. One of them is then taken for this worker and any other for a stranger, a second
    worker of the same sweep on the card included. Some containers are told of no process at all.

    Args:
        pids: As the driver lists them.
        own: This worker's number, its parent's, and how to find a process's parent; given by
            tests only.
        family: See ``own``.
        parent_of: See ``own``.

    Returns:
        The count, None where the driver lists not even this worker.
    """
    own, family = own or os.getpid(), family or os.getppid()
    parent_of = parent_of or parent
    if not pids:
        return None
    if own not in pids:
        return len(set(pids)) - 1
    return sum(not _descends(pid, family, parent_of) for pid in set(pids) - {own})


def _descends(pid: int, family: int, parent_of: Callable[[int], int | None]) -> bool:
    known: int | None = pid
    while known is not None and known > 0:
        if known == family:
            return True
        known = parent_of(known)
    return False


def parent(pid: int) -> int | None:
    """A process's parent, None where the system does not tell."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    # the name before it stands in parentheses and may hold anything
    return int(status.rpartition(")")[2].split()[1])
