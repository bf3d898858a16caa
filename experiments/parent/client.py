"""The parent's handle on a worker process: requests with time limits, and replacement.

Messages are JSON objects, one per line of a socket. Anything else on the socket ends the worker
with a reason, and the next request starts a new one. What kernels and libraries print goes to a
log of limited size.
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
WORKER = "ROOFLINE_WORKER"  # an environment variable that workers have
LARGEST_MESSAGE = 256 << 20  # bytes; the description of 100,000 shapes takes 30 MB


class WorkerError(UserError):
    """A worker that cannot be used, in one line."""


class WorkerDied(Exception):
    """The worker ended during a request, or was ended because it took too long."""

    def __init__(self, status: str, reason: str) -> None:
        super().__init__(reason)
        self.status = status  # for the point's row: ``crashed`` or ``timeout``


@dataclass(eq=False)
class Worker:
    """One worker process on one card, started when first needed and again after it died."""

    device: str
    card: int
    log: Path
    measures: bool = False  # whether it prepares to measure before the first request
    checker: Worker | None = None  # checks the answers of an outside file without importing it
    handshake: dict[str, Any] = field(default_factory=dict)  # of the last process that was up
    process: subprocess.Popen[bytes] | None = None
    _socket: Any = None  # None while there is no process
    _lines: Any = None  # that come from it
    _up: bool = False
    _requests: int = 0

    def spawn(self) -> None:
        """Starts its process if there is none, and does not wait until it is up.

        Linux kills a worker when the thread that started it ends.

        Raises:
            WorkerError: its card is not visible, or its log is not a file.
        """
        if self._socket is not None:
            return
        if WORKER in os.environ:  # else it would start itself again and again
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
                start_new_session=True,  # Ctrl-C is the parent's to handle
                pass_fds=(theirs.fileno(),),
            )
        threading.Thread(target=_keep, args=(self.process.stdout, log), daemon=True).start()
        self._socket, self._lines, self._up = own, own.makefile("rb"), False

    def start(self, attempts: int = START_ATTEMPTS) -> dict[str, Any]:
        """Starts it if it is not running, and gives its device and environment.

        A worker that dies as it starts is started again, ``attempts`` times in all.

        Raises:
            WorkerError: it did not come up, or has no such device.
        """
        self.spawn()
        if self._up:
            return self.handshake
        try:
            handshake = self._receive(START_LIMIT_S)
        except OSError as error:
            why = self._ending(error)
            self.stop()
            if attempts > 1 and not isinstance(error, TimeoutError):
                return self.start(attempts - 1)
            raise WorkerError(f"the worker did not start: {why}; see {self.log}") from None
        if "error" in handshake:
            self.stop()
            raise WorkerError(str(handshake["error"]))
        self.handshake, self._up = handshake, True
        return handshake

    def request(self, message: Mapping[str, Any], **limits_s: float) -> dict[str, Any]:
        """Sends a request and waits for its reply.

        Args:
            message: The request.
            limits_s: Seconds for each stage that the worker announces; it begins in the first.

        Raises:
            WorkerDied: it crashed, sent no proper answer, or a stage outlasted its limit and it was
                killed. The next request starts another.
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
        except WorkerDied:  # the checker did
            self.stop()
            raise
        except TimeoutError:
            self.stop()
            raise WorkerDied("timeout", f"{stage} took more than {limits_s[stage]:g} s") from None
        except OSError as error:
            why = self._ending(error)
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

    def _ending(self, error: Exception) -> str:
        """Why there is no answer: what was sent instead, or the signal or the exit status."""
        if isinstance(error, ChildProcessError | TimeoutError) or self.process is None:
            return str(error)
        try:
            code = self.process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            return "it closed its socket"
        return signal.Signals(-code).name if code < 0 else f"exit status {code}"

    def stop(self, patience_s: float = 0.0) -> None:
        """Ends the process and its children; first gives it ``patience_s`` seconds to exit.

        A profiler loses the records that a killed process had not handed over.
        """
        if self._socket is not None and self.process is not None:
            with contextlib.suppress(OSError):
                self._socket.shutdown(socket.SHUT_WR)  # there are no more requests
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(patience_s)
            self.kill()
            self.process.wait()
            self._lines.close()
            self._socket.close()
            self._socket = None

    def kill(self) -> None:
        """Kills its process with its children; the thread that waits gets an error."""
        if self._socket is not None and self.process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)


@cache
def has_cuda_driver() -> bool:
    """Whether this machine has CUDA's driver; a worker says whether the driver has a card."""
    with contextlib.suppress(OSError):
        return bool(ctypes.CDLL("libcuda.so.1"))
    return False


def child_environment(given: Mapping[str, str]) -> dict[str, str]:
    """An environment in which children find this checkout."""
    path = os.pathsep.join([str(ROOT), *filter(None, [given.get("PYTHONPATH")])])
    return {**given, "PYTHONPATH": path}


def worker_variables(device: str, card: int) -> dict[str, str]:
    """The environment variables of a worker, which decide the one card that it sees.

    Raises:
        WorkerError: ``CUDA_VISIBLE_DEVICES`` names fewer cards.
    """
    variables = child_environment(os.environ)
    variables[WORKER] = "1"
    variables.pop("TRITON_INTERPRET", None)  # the worker decides by its device
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
    """A descriptor that appends to a log, never through a link; a full log is emptied first."""
    path.parent.mkdir(parents=True, exist_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK
    file = os.open(path, flags, 0o644)
    if os.fstat(file).st_size >= LARGEST_LOG:
        os.ftruncate(file, 0)
    return file


def _keep(printed: Any, log: int) -> None:
    """Moves a worker's output into its log until that is full; the rest is read and dropped."""
    with printed, open(log, "wb", buffering=0) as file, contextlib.suppress(OSError):
        while data := printed.read1():
            room = LARGEST_LOG - os.fstat(log).st_size
            with contextlib.suppress(OSError):  # a full disk must not stop the worker
                file.write(data[: max(room, 0)])
