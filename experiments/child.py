"""Both ends of a worker's line: JSON objects, one per line, over a socket pair.

What a kernel or a library prints goes to a log of bounded size instead. A line that is not a
message ends the child with a reason; the parent can start another.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from experiments.data.files import parse_json

ROOT = Path(__file__).resolve().parents[1]
LARGEST_MESSAGE = 256 << 20  # bytes; the description of 100,000 shapes takes 30 MB
LARGEST_LOG = 4 << 20  # bytes


class ChildError(Exception):
    """The child ended, or sent something that is not a message; one line."""


class Channel:
    """One end of the line; the child iterates over its own for requests."""

    def __init__(self, own: socket.socket | None = None) -> None:
        """Takes a socket; None is the one that the last argument of the child's command names."""
        if own is None:
            own = socket.socket(fileno=int(sys.argv.pop()))
            own.set_inheritable(False)
        self._socket, self._lines = own, own.makefile("rwb")

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return map(parse, self._lines)

    def send(self, message: Mapping[str, Any]) -> None:
        """Writes one message and hands it over at once."""
        self._lines.write(json.dumps(message).encode() + b"\n")
        self._lines.flush()


class Child(Channel):
    """The parent's handle on a child, which is started at once in a session of its own."""

    def __init__(self, command: Sequence[str], env: Mapping[str, str], log: Path) -> None:
        """Starts Python with a ``command``; ``log`` takes its output, up to `LARGEST_LOG` bytes.

        Raises:
            OSError: the log is not a regular file, or cannot be written.
        """
        file = _open_log(log)
        own, theirs = socket.socketpair()
        super().__init__(own)
        printed, output = os.pipe()
        with theirs:
            self.process = subprocess.Popen(
                [sys.executable, *command, str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=env,
                start_new_session=True,  # Ctrl-C is the parent's to handle
                pass_fds=(theirs.fileno(),),
            )
        os.close(output)
        self._logging = threading.Thread(target=_keep, args=(printed, file), daemon=True)
        self._logging.start()

    def send(self, message: Mapping[str, Any]) -> None:
        """Hands a message over.

        Raises:
            ChildError: the child has ended.
        """
        try:
            super().send(message)
        except OSError:
            raise ChildError(self._ending()) from None

    def receive(self, limit_s: float) -> dict[str, Any]:
        """The child's next message.

        Raises:
            ChildError: it ended, or sent something that is not a message.
            TimeoutError: nothing came for ``limit_s`` seconds; the child is of no use any more.
        """
        self._socket.settimeout(limit_s)
        try:
            line = self._lines.readline(LARGEST_MESSAGE)
        except TimeoutError:
            raise
        except OSError:
            line = b""
        if not line.endswith(b"\n"):
            raise ChildError("it sent a message without an end" if line else self._ending())
        return parse(line)

    def _ending(self) -> str:
        """How it ended: the signal's name or the exit status."""
        try:
            code = self.process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            return "it closed its socket"
        return signal.Signals(-code).name if code < 0 else f"exit status {code}"

    def kill(self) -> None:
        """Kills it and its own children; whoever waits for a message gets a `ChildError`."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)

    def close(self, patience_s: float = 0.0) -> None:
        """Ends it, after ``patience_s`` seconds to end by itself."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)  # there are no more requests
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(patience_s)
        self.kill()
        self.process.wait()
        with contextlib.suppress(OSError):  # of what it did not take
            self._lines.close()
        self._socket.close()
        self._logging.join(timeout=1.0)


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


def _open_log(path: Path) -> int:
    """A descriptor that appends to a log, never through a link; a full log is emptied first."""
    path.parent.mkdir(parents=True, exist_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK
    file = os.open(path, flags, 0o644)
    if os.fstat(file).st_size >= LARGEST_LOG:
        os.ftruncate(file, 0)
    return file


def _keep(printed: int, file: int) -> None:
    """Moves a child's output into its log until that is full; the rest is read and dropped."""
    with contextlib.suppress(OSError):
        while data := os.read(printed, 1 << 16):
            room = LARGEST_LOG - os.fstat(file).st_size
            with contextlib.suppress(OSError):  # a full disk must not stop the child
                os.write(file, data[: max(room, 0)])
    os.close(printed)
    os.close(file)
