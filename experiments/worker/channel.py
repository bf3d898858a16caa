"""The worker's line to its parent: JSON objects, one a line, on a pipe that nothing else writes."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
from collections.abc import Iterator
from typing import Any

PR_SET_PDEATHSIG = 1


class Channel:
    """Takes over stdin and stdout; what kernels or compilers print goes to stderr instead."""

    def __init__(self) -> None:
        self._replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
        os.dup2(2, 1)
        sys.stdout = sys.stderr

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for line in sys.stdin:
            yield json.loads(line)

    def send(self, message: dict[str, Any]) -> None:
        """Writes one message and hands it over at once."""
        self._replies.write(json.dumps(message) + "\n")
        self._replies.flush()


def die_with_parent() -> None:
    """Asks Linux to kill this process when its parent is gone, however the parent ended.

    Otherwise an orphan would go on using the card beside the sweep that resumes.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
