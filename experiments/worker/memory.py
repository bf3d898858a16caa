"""What the host can still give, asked before it is taken: Linux promises memory it does not have.

It then ends a process of its own choice, which may be the sweep and not the worker.
"""

from __future__ import annotations

from pathlib import Path

CGROUP = Path("/sys/fs/cgroup")


def require(size_bytes: int) -> None:
    """Sees to it that the host has so many bytes left.

    Raises:
        MemoryError: it has fewer.
    """
    free = available()
    if free is not None and size_bytes > free:
        raise MemoryError(
            f"input and answer take {size_bytes / 1e9:.3g} GB, and {free / 1e9:.3g} GB are free"
        )


def available() -> int | None:
    """Bytes that can be had without swapping, within a container's limit; None if not told."""
    found = [_of_machine(), _of_container()]
    return min((size for size in found if size is not None), default=None)


def _of_machine() -> int | None:
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError):
        pass
    return None


def _of_container() -> int | None:
    try:
        limit, used = ((CGROUP / f"memory.{name}").read_text() for name in ("max", "current"))
        return int(limit) - int(used)
    except (OSError, ValueError):  # none, or "max"
        return None
