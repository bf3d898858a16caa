"""What a worker shares with its parent.

Messages are JSON objects, one per line of a socket; both ask NVML for the cards.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import re
import socket
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from experiments.data.files import parse_json

ROOT = Path(__file__).resolve().parents[1]
LARGEST_MESSAGE = 256 << 20  # bytes; the description of 100,000 shapes takes 30 MB


class ChildError(OSError):
    """The other side sent something that is not a message; one line."""


class Channel:
    """One end of a socket pair; a worker iterates over its own for requests."""

    def __init__(self, own: socket.socket | None = None) -> None:
        """Takes a socket; None is the one that the last argument of the command names."""
        if own is None:
            own = socket.socket(fileno=int(sys.argv.pop()))
            own.set_inheritable(False)
        self._socket, self._lines = own, own.makefile("rwb")

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return map(parse, self._lines)

    def send(self, message: Mapping[str, Any]) -> None:
        """Writes one message and hands it over at once.

        Raises:
            OSError: the other side has ended.
        """
        self._lines.write(json.dumps(message).encode() + b"\n")
        self._lines.flush()

    def receive(self, limit_s: float) -> dict[str, Any]:
        """The next message.

        Raises:
            ChildError: something came that is not a message.
            TimeoutError: nothing came for ``limit_s`` seconds; the channel is of no use any more.
            OSError: the other side has ended.
        """
        self._socket.settimeout(limit_s)
        line = self._lines.readline(LARGEST_MESSAGE)
        if not line:
            raise ConnectionResetError
        if not line.endswith(b"\n"):
            raise ChildError("it sent a message without an end")
        return parse(line)

    def end(self) -> None:
        """Tells the other side that nothing follows."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """Drops what the other side did not take."""
        with contextlib.suppress(OSError):
            self._lines.close()
        self._socket.close()


def parse(line: bytes) -> dict[str, Any]:
    """A line as a message.

    Raises:
        ChildError: it is not a JSON object.
    """
    with contextlib.suppress(ValueError):
        message = parse_json(line)
        if isinstance(message, dict):
            return message
    shown = line[:60].decode("utf-8", "replace").rstrip()
    raise ChildError(f"it sent {shown!r}, which is not a message")


@cache
def _nvml() -> Any:
    with contextlib.suppress(Exception):
        import pynvml

        pynvml.nvmlInit()
        return pynvml


def ask_nvml(fact: str, *arguments: Any) -> Any:
    """The answer of NVIDIA's management library, such as to ``DeviceGetCount``.

    None without the library, a driver or permission, and for a fact that the card does not give.
    """
    with contextlib.suppress(Exception):
        return getattr(_nvml(), f"nvml{fact}")(*arguments)
    return None


def environment(given: Mapping[str, str]) -> dict[str, str]:
    """An environment in which children find this checkout."""
    path = os.pathsep.join([str(ROOT), *filter(None, [given.get("PYTHONPATH")])])
    return {**given, "PYTHONPATH": path}


def one_line(error: BaseException) -> str:
    """An error as one line of at most 300 characters, without paths, user or name of this host."""
    text = " ".join(str(error).encode("utf-8", "replace").decode().split())
    text = re.sub(r"(?:/[\w.@+-]+)+/([\w.@+-]+)", r"\1", text)
    for private in (Path.home().name, platform.node()):
        if len(private) > 2:
            text = text.replace(private, "…")
    return f"{type(error).__name__}: {text or type(error).__name__}"[:300]
