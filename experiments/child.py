"""A child process that takes and gives JSON objects, one per line, on two pipes of its own.

Its standard output and error are not part of that: what a kernel, a library or the interpreter
prints there, at any time and in any bytes, goes to a log of bounded size. What is not a message
ends the child and is an error with a reason; the parent can start another.
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
        pass_fds: Sequence[int] = (),
    ) -> None:
        """Starts a Python program, which opens a `Channel`.

        Args:
            command: Python's arguments, such as ``-m experiments.worker``.
            env: Its environment.
            log: Takes what it prints, up to `LARGEST_LOG` bytes; None drops it.
            cwd: The folder it runs in.
            pass_fds: Descriptors that it holds as long as it lives.

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
                pass_fds=(requests, replies, *pass_fds),
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
        poll = select.poll()
        poll.register(self._replies, select.POLLIN)
        data = b""
        while b"\n" not in (data or self._pending):
            left = end - time.monotonic()
            if left <= 0:
                raise TimeoutError
            if poll.poll(1e3 * min(left, 1.0)):
                data = os.read(self._replies, 1 << 20)
                if not data:
                    raise ChildError(self.ending())
                self._pending += data
            elif self.process.poll() is not None:  # its own children may hold the pipe open
                raise ChildError(self.ending())
            if len(self._pending) > LARGEST_MESSAGE:
                raise ChildError(f"it sent a message of more than {LARGEST_MESSAGE >> 20} MiB")
        line, _, rest = bytes(self._pending).partition(b"\n")
        self._pending = bytearray(rest)
        return parse(line)

    def has_sent(self) -> bool:
        """Whether there is something to receive, or nothing more will come."""
        return bool(self._pending or select.select([self._replies], [], [], 0)[0])

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
        """Ends it for good, and closes its pipes.

        Args:
            patience_s: How long it may take to end by itself once it gets no more requests.
        """
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
    try:
        message = parse_json(line)
    except ValueError:
        message = None
    if not isinstance(message, dict):
        shown = line[:60].decode("utf-8", "replace")
        raise ChildError(f"it sent {shown!r}, which is not a message")
    return message


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
    """Moves what a child prints into its log until that is full; then it is read and dropped."""
    with contextlib.suppress(OSError):
        while data := os.read(printed, 1 << 16):
            room = LARGEST_LOG - os.fstat(file).st_size
            if room > 0:
                with contextlib.suppress(OSError):  # a full disk must not stop the child
                    os.write(file, data[:room])
    os.close(printed)
    os.close(file)
