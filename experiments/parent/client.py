"""The parent's handle on a worker process: requests with time limits, and replacement.

Messages are JSON objects, one per line of a socket. A worker that sends anything else is stopped,
and the next request starts a new one. What kernels and libraries print goes to a log of limited
size.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from experiments.data.errors import UserError
from experiments.data.files import parse_json
from experiments.data.jobs import ROOT

START_LIMIT_S = 180.0
START_ATTEMPTS = 3
LEAVING_LIMIT_S = 60.0
LARGEST_LOG = 4 << 20  # bytes
WORKER = "ROOFLINE_WORKER"  # an environment variable that only workers have
LARGEST_MESSAGE = 256 << 20  # bytes; the description of 100,000 shapes takes 30 MB


class WorkerError(UserError):
    """Why a worker cannot be started, in one line."""


class WorkerDied(Exception):
    """The worker died during a request, or was killed because it took too long."""

    def __init__(self, status: str, reason: str) -> None:
        super().__init__(reason)
        self.status = status  # for the point's row: ``crashed`` or ``timeout``


@dataclass(eq=False)
class Worker:
    """The handle of a worker process on one card; a request starts the process if it is missing."""

    device: str
    card: int
    log: Path
    measures: bool = False  # whether the process prepares to measure before the first request
    checker: Worker | None = None  # checks the answers of an outside file without importing it
    handshake: dict[str, Any] = field(default_factory=dict)  # first message of the last process
    process: subprocess.Popen[bytes] | None = None
    _socket: Any = None  # None while there is no process
    _lines: Any = None  # reads the socket line by line
    _ready: bool = False  # whether the handshake has come
    _requests: int = 0

    def spawn(self) -> None:
        """Starts its process if it is missing, without waiting for the handshake.

        Linux kills a worker when the thread that started it ends.

        Raises:
            WorkerError: this is a worker itself, its card is not visible, or its log is not a file.
        """
        if self._socket is not None:
            return
        if WORKER in os.environ:  # each worker would import the file and start the next worker
            raise WorkerError(
                "a file that is measured is imported, and may not measure then: put its call of "
                "bench or sweep below if __name__ == '__main__':"
            )
        if self.device == "cuda" and not has_cuda_driver():
            raise WorkerError("this machine has no CUDA driver; gpu=cpu measures its CPU")
        variables = worker_variables(self.device, self.card)
        try:
            log = _open_log(self.log)
        except OSError as error:
            raise WorkerError(f"{self.log} cannot be written: {error.strerror}") from None
        own, theirs = socket.socketpair()
        command = [sys.executable, "-m", "experiments.worker", self.device]
        with theirs:
            self.process = subprocess.Popen(
                [*command, *["prepare"] * self.measures, str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env=variables,
                start_new_session=True,  # Ctrl-C reaches only the parent
                pass_fds=(theirs.fileno(),),
            )
        threading.Thread(target=_copy_output, args=(self.process.stdout, log), daemon=True).start()
        self._socket, self._lines, self._ready = own, own.makefile("rb"), False

    def start(self, attempts: int = START_ATTEMPTS) -> dict[str, Any]:
        """Starts the process if needed, and returns its handshake: device and environment.

        A process that dies as it starts is started again, ``attempts`` times in all.

        Raises:
            WorkerError: it did not start, or has no such device.
        """
        self.spawn()
        if self._ready:
            return self.handshake
        try:
            handshake = self._receive(START_LIMIT_S)
        except OSError as error:
            why = self._why_it_ended(error)
            self.stop()
            if attempts > 1 and not isinstance(error, TimeoutError):
                return self.start(attempts - 1)
            raise WorkerError(f"the worker did not start: {why}; see {self.log}") from None
        if "error" in handshake:
            self.stop()
            raise WorkerError(str(handshake["error"]))
        self.handshake, self._ready = handshake, True
        return handshake

    def request(self, message: Mapping[str, Any], **limits_s: float) -> dict[str, Any]:
        """Sends a request and waits for its reply.

        Args:
            message: The request.
            limits_s: Seconds for each stage, by its name. A request begins in the first stage; the
                worker announces the others.

        Raises:
            WorkerDied: it crashed, sent an invalid message, or exceeded a stage's limit.
        """
        self.start()
        stage = next(iter(limits_s))
        self._requests += 1
        try:
            self._send({**message, "number": self._requests})
            while True:
                answer = self._receive(limits_s[stage])
                reply = answer.get("reply")
                if "check" in answer and self.checker is not None:
                    question = {"do": "check", "path": str(answer["check"])}
                    limits = {stage: limits_s[stage]} | limits_s
                    self._send({"result": self.checker.request(question, **limits)})
                elif answer.get("stage") in [*limits_s]:
                    stage = answer["stage"]
                elif isinstance(reply, dict) and answer.get("number") == self._requests:
                    return reply
                else:
                    raise ChildProcessError(f"it sent {str(answer)[:60]}, which is not an answer")
        except WorkerDied:  # it was the checker that died
            self.stop()
            raise
        except TimeoutError:
            self.stop()
            raise WorkerDied("timeout", f"{stage} took more than {limits_s[stage]:g} s") from None
        except OSError as error:
            why = self._why_it_ended(error)
            self.stop()
            raise WorkerDied("crashed", f"the worker died while {stage}: {why}") from None

    def _send(self, message: Mapping[str, Any]) -> None:
        self._socket.sendall(json.dumps(message).encode() + b"\n")

    def _receive(self, limit_s: float) -> dict[str, Any]:
        """The next message; raises `TimeoutError` if none comes within ``limit_s`` seconds."""
        self._socket.settimeout(limit_s)
        if not (line := self._lines.readline(LARGEST_MESSAGE)):
            raise ConnectionResetError
        with contextlib.suppress(ValueError):
            message = parse_json(line)
            if isinstance(message, dict) and line.endswith(b"\n"):
                return message
        shown = line[:60].decode("utf-8", "replace").rstrip()
        raise ChildProcessError(f"it sent {shown!r}, which is not a message")

    def _why_it_ended(self, error: Exception) -> str:
        """Why the process sent no valid message: the error's text, its signal or exit status."""
        if isinstance(error, ChildProcessError | TimeoutError) or self.process is None:
            return str(error)
        try:
            code = self.process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            return "it closed its socket"
        return signal.Signals(-code).name if code < 0 else f"exit status {code}"

    def stop(self, patience_s: float = 0.0) -> None:
        """Waits ``patience_s`` seconds for the process to exit, then kills it and its children.

        A profiler loses what a killed process has not written yet, so it needs this time.
        """
        if self._socket is not None and self.process is not None:
            with contextlib.suppress(OSError):
                self._socket.shutdown(socket.SHUT_WR)  # tells it that no more requests will come
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(patience_s)
            self.kill()
            self.process.wait()
            self._lines.close()
            self._socket.close()
            self._socket = None

    def kill(self) -> None:
        """Kills its process and children; a thread that waits for a reply gets an error."""
        if self._socket is not None and self.process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)


@cache
def has_cuda_driver() -> bool:
    """Whether this machine has CUDA's driver, with or without a card."""
    with contextlib.suppress(OSError):
        return bool(ctypes.CDLL("libcuda.so.1"))
    return False


def child_environment(given: Mapping[str, str]) -> dict[str, str]:
    """The environment variables ``given``, with this checkout first in ``PYTHONPATH``."""
    path = os.pathsep.join([str(ROOT), *filter(None, [given.get("PYTHONPATH")])])
    return {**given, "PYTHONPATH": path}


def worker_variables(device: str, card: int) -> dict[str, str]:
    """The environment variables of a worker; they make one card visible to it.

    Raises:
        WorkerError: ``card`` is beyond the list in ``CUDA_VISIBLE_DEVICES``.
    """
    variables = child_environment(os.environ)
    variables[WORKER] = "1"
    variables.pop("TRITON_INTERPRET", None)  # the worker sets it, by its device
    limited = variables.get("CUDA_VISIBLE_DEVICES")
    if device != "cpu" and limited != "":  # empty hides every card, and is left so
        visible = limited.split(",") if limited else [str(i) for i in range(card + 1)]
        if card >= len(visible):
            raise WorkerError(f"card {card} is not among the {len(visible)} visible ones")
        variables["CUDA_VISIBLE_DEVICES"] = visible[card]
    # CUDA must number cards as NVML does: the locked card must be the timed one
    variables["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"
    return variables


def _open_log(path: Path) -> int:
    """A file descriptor that appends to a log; it empties a full log and follows no link."""
    path.parent.mkdir(parents=True, exist_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK
    file = os.open(path, flags, 0o644)
    if os.fstat(file).st_size >= LARGEST_LOG:
        os.ftruncate(file, 0)
    return file


def _copy_output(printed: Any, log: int) -> None:
    """Copies a worker's output into its log until that is full; reads and drops the rest."""
    with printed, open(log, "wb", buffering=0) as file, contextlib.suppress(OSError):
        while data := printed.read1():
            room = LARGEST_LOG - os.fstat(log).st_size
            with contextlib.suppress(OSError):  # a full disk must not stop the worker
                file.write(data[: max(room, 0)])
