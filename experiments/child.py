"""A child process that exchanges JSON objects with its parent, one per line, on two pipes.

What a kernel or a library prints goes to a log of bounded size instead. A line that is not a
message ends the child with a reason; the parent can start another.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import platform
import re
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from experiments.data.files import parse_json

ROOT = Path(__file__).resolve().parents[1]
LARGEST_MESSAGE = 256 << 20  # bytes; the description of 100,000 shapes takes 30 MB
LARGEST_LOG = 4 << 20  # bytes
PR_SET_PDEATHSIG = 1


class ChildError(Exception):
    """The child ended, or sent something that is not a message; one line."""


class Child:
    """The parent's handle on a child, which is started at once in a session of its own."""

    def __init__(
        self,
        command: Sequence[str],
        env: Mapping[str, str],
        log: Path | None = None,
        cwd: Path | None = None,
    ) -> None:
        """Starts a Python program, which opens a `Channel`.

        Args:
            command: Python's arguments, such as ``-m experiments.worker``.
            env: Its environment.
            log: Takes its output, up to `LARGEST_LOG` bytes; None drops it.
            cwd: The folder it runs in.

        Raises:
            OSError: the log is not a regular file, or cannot be written.
        """
        file = open_log(log or Path(os.devnull))
        requests, own = os.pipe()
        self._requests = os.fdopen(own, "wb")
        self._replies, replies = os.pipe()
        printed, output = os.pipe()
        try:
            self.process = subprocess.Popen(
                [sys.executable, *command, f"{requests},{replies}"],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=env,
                cwd=cwd,
                start_new_session=True,  # Ctrl-C is the parent's to handle
                pass_fds=(requests, replies),
            )
        finally:
            for descriptor in (requests, replies, output):
                os.close(descriptor)
        self._pending = bytearray()
        self._logging = threading.Thread(target=_keep, args=(printed, file), daemon=True)
        self._logging.start()

    def send(self, message: Mapping[str, Any]) -> None:
        """Hands a message over.

        Raises:
            ChildError: the child has ended.
        """
        try:
            self._requests.write(json.dumps(message).encode() + b"\n")
            self._requests.flush()
        except OSError:
            raise ChildError(self.ending()) from None

    def receive(self, limit_s: float) -> dict[str, Any]:
        """The child's next message.

        Raises:
            ChildError: it ended, or sent something that is not a message.
            TimeoutError: there was none within ``limit_s`` seconds.
        """
        end = time.monotonic() + limit_s
        data = b""
        while b"\n" not in (data or self._pending):
            left = end - time.monotonic()
            if left <= 0:
                raise TimeoutError
            if select.select([self._replies], [], [], min(left, 1.0))[0]:
                data = os.read(self._replies, 1 << 20)
                if not data:
                    raise ChildError(self.ending())
                self._pending += data
            elif self.process.poll() is not None:  # its own children may hold the pipe open
                raise ChildError(self.ending())
            if len(self._pending) > LARGEST_MESSAGE:
                raise ChildError(f"it sent a message of more than {LARGEST_MESSAGE >> 20} MiB")
        line, _, self._pending = self._pending.partition(b"\n")
        return parse(bytes(line))

    def ending(self) -> str:
        """How it ended: the signal's name or the exit status."""
        try:
            code = self.process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            return "it closed its pipe"
        return signal.Signals(-code).name if code < 0 else f"exit status {code}"

    def kill(self) -> None:
        """Kills it and its own children; whoever waits for a message gets a `ChildError`."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)

    def close(self, patience_s: float = 0.0) -> None:
        """Ends it and closes its pipes, after ``patience_s`` seconds to end by itself."""
        with contextlib.suppress(OSError):  # of what it did not take
            self._requests.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(patience_s)
        self.kill()
        self.process.wait()
        os.close(self._replies)
        self._logging.join(timeout=1.0)


class Channel:
    """The child's end: iterate over it for requests."""

    def __init__(self) -> None:
        """Opens the pipes that the last argument of the command names, and takes it away."""
        requests, replies = map(int, sys.argv.pop().split(","))
        for descriptor in (requests, replies):
            os.set_inheritable(descriptor, False)
        self._requests = os.fdopen(requests, "rb")
        self._replies = os.fdopen(replies, "wb")

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return map(parse, self._requests)

    def send(self, message: Mapping[str, Any]) -> None:
        """Writes one message and hands it over at once."""
        self._replies.write(json.dumps(message).encode() + b"\n")
        self._replies.flush()


def parse(line: bytes) -> dict[str, Any]:
    """A line as a message.

    Raises:
        ChildError: it is not a JSON object.
    """
    with contextlib.suppress(ValueError):
        message = parse_json(line)
        if isinstance(message, dict):
            return message
    shown = line[:60].decode("utf-8", "replace")
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


def die_with_parent() -> None:
    """Asks Linux to kill this process when its parent is gone, however the parent ended.

    Otherwise an orphan would go on using the card beside the sweep that resumes.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def open_log(path: Path) -> int:
    """A descriptor that appends to a log; a log that is full is emptied first.

    Raises:
        OSError: it is not a regular file (a link, a pipe), or cannot be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.is_symlink() or path.is_fifo() or path.is_dir():
        raise OSError(f"{path} is not a regular file; remove it")
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
