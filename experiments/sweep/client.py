"""The parent's handle on a worker process: requests with time limits, and replacement.

What a kernel or a library prints there goes to a log of bounded size. Whatever is not a message
ends the worker with a reason, and the next request starts another.
"""

from __future__ import annotations

import contextlib
import ctypes
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

from experiments import child
from experiments.child import Channel, ChildError
from experiments.data.errors import UserError

START_LIMIT_S = 180.0
START_ATTEMPTS = 3
LEAVING_LIMIT_S = 60.0
LARGEST_LOG = 4 << 20  # bytes


class WorkerError(UserError):
    """A worker that cannot be used, in one line."""


class WorkerDied(Exception):
    """The worker ended during a request, or was ended because it took too long.

    Attributes:
        status: The row status it amounts to, ``crashed`` or ``timeout``.
    """

    def __init__(self, status: str, reason: str) -> None:
        super().__init__(reason)
        self.status = status


@dataclass(eq=False)
class Worker:
    """One worker process on one card, started when first needed and again after it died."""

    device: str
    card: int
    log: Path
    measures: bool = False  # it prepares for that before the first request
    judge: Worker | None = None  # of the answers of a file from outside, which it never imports
    handshake: dict[str, Any] = field(default_factory=dict)  # of the last process that was up
    process: subprocess.Popen[bytes] | None = None
    _channel: Channel | None = None
    _up: bool = False
    _requests: int = 0

    def spawn(self) -> None:
        """Starts its process if there is none, and does not wait until it is up.

        Linux ends a worker together with the thread that it was started from.

        Raises:
            WorkerError: its card is not visible, or its log is not a file.
        """
        if self._channel is not None:
            return
        if self.device == "cuda" and not drives():
            raise WorkerError("this machine has no CUDA driver; gpu=cpu measures its CPU")
        variables = environment(self.device, self.card)
        try:
            log = _open_log(self.log)
        except OSError as error:
            raise WorkerError(f"{self.log} cannot be written: {error.strerror}") from None
        own, theirs = socket.socketpair()
        printed, output = os.pipe()
        command = [sys.executable, "-m", "experiments.worker", self.device]
        with theirs:
            self.process = subprocess.Popen(
                [*command, *["prepare"] * self.measures, str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=variables,
                start_new_session=True,  # Ctrl-C is the parent's to handle
                pass_fds=(theirs.fileno(),),
            )
        os.close(output)
        threading.Thread(target=_keep, args=(printed, log), daemon=True).start()
        self._channel, self._up = Channel(own), False

    def start(self, attempts: int = START_ATTEMPTS) -> dict[str, Any]:
        """Starts it if it is not running, and gives its device and environment.

        A worker that dies as it starts is started again, ``attempts`` times in all.

        Raises:
            WorkerError: it did not come up, or has no such device.
        """
        self.spawn()
        assert self._channel is not None
        if self._up:
            return self.handshake
        try:
            handshake = self._channel.receive(START_LIMIT_S)
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
            limits_s: How long each stage may last that it announces; it begins in the first.

        Raises:
            WorkerDied: it crashed, sent no proper answer, or a stage outlasted its limit and it was
                killed. The next request starts another.
        """
        self.start()
        channel, stage = self._channel, next(iter(limits_s))
        if channel is None:  # killed meanwhile
            raise WorkerDied("crashed", f"the worker was ended while {stage}")
        self._requests += 1
        try:
            channel.send({**message, "number": self._requests})
            while True:
                answer = channel.receive(limits_s[stage])
                reply = answer.get("reply")
                if "judge" in answer and self.judge is not None:
                    question = {"do": "judge", "path": str(answer["judge"])}
                    limits = {stage: limits_s[stage]} | limits_s
                    channel.send({"verdict": self.judge.request(question, **limits)})
                elif answer.get("stage") in [*limits_s]:
                    stage = answer["stage"]
                elif isinstance(reply, dict) and answer.get("number") == self._requests:
                    return reply
                else:
                    raise ChildError(f"it sent {str(answer)[:60]}, which is not an answer")
        except WorkerDied:  # the judge did
            self.stop()
            raise
        except TimeoutError:
            self.stop()
            raise WorkerDied("timeout", f"{stage} took more than {limits_s[stage]:g} s") from None
        except OSError as error:
            why = self._ending(error)
            self.stop()
            raise WorkerDied("crashed", f"the worker died while {stage}: {why}") from None

    def _ending(self, error: Exception) -> str:
        """Why there is no answer: what was sent instead, or the signal or the exit status."""
        if isinstance(error, ChildError | TimeoutError) or self.process is None:
            return str(error)
        try:
            code = self.process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            return "it closed its socket"
        return signal.Signals(-code).name if code < 0 else f"exit status {code}"

    def stop(self, patience_s: float = 0.0) -> None:
        """Ends the process and its children, after ``patience_s`` seconds to end by itself.

        A profiler loses the records that a killed process had not handed over.
        """
        channel, self._channel = self._channel, None
        if channel is not None and self.process is not None:
            channel.end()  # there are no more requests
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(patience_s)
            _kill(self.process)
            self.process.wait()
            channel.close()

    def kill(self) -> None:
        """Kills its process; the thread that waits for an answer gets an error."""
        if self._channel is not None and self.process is not None:
            _kill(self.process)


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kills a process and its own children."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


@cache
def drives() -> bool:
    """Whether this machine has CUDA's driver; a worker says whether the driver has a card."""
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    return True


def environment(device: str, card: int) -> dict[str, str]:
    """The environment variables of a worker, which decide the one card that it sees.

    Raises:
        WorkerError: ``CUDA_VISIBLE_DEVICES`` names fewer cards.
    """
    variables = child.environment(os.environ)
    variables.pop("TRITON_INTERPRET", None)  # the worker decides by its device
    limited = variables.get("CUDA_VISIBLE_DEVICES")
    if device != "cpu" and limited != "":  # empty hides every card, and is left so
        visible = limited.split(",") if limited else [str(i) for i in range(card + 1)]
        if card >= len(visible):
            raise WorkerError(f"card {card} is not among the {len(visible)} visible ones")
        variables["CUDA_VISIBLE_DEVICES"] = visible[card]
    # as NVML numbers them: the card that is locked must be the one that is timed
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


def _keep(printed: int, log: int) -> None:
    """Moves a worker's output into its log until that is full; the rest is read and dropped."""
    with contextlib.suppress(OSError):
        while data := os.read(printed, 1 << 16):
            room = LARGEST_LOG - os.fstat(log).st_size
            with contextlib.suppress(OSError):  # a full disk must not stop the worker
                os.write(log, data[: max(room, 0)])
    os.close(printed)
    os.close(log)
