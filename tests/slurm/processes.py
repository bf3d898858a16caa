"""Processes of this machine: waiting for them, finding and ending them."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import time
from collections.abc import Callable
from pathlib import Path


def wait_until(ready: Callable[[], object], limit_s: float) -> None:
    end = time.monotonic() + limit_s
    while not ready():
        assert time.monotonic() < end, f"nothing happened in {limit_s:g} s"
        time.sleep(0.1)


def below(parents: list[int]) -> list[int]:
    """Processes and all their descendants."""
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            pid, _, rest = stat.read_text().partition(" (")
        except OSError:
            continue
        children.setdefault(int(rest.rpartition(") ")[2].split()[1]), []).append(int(pid))
    found = list(parents)
    for process in found:
        found += children.get(process, [])
    return found


def kill(process: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(process, signal.SIGKILL)


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])
