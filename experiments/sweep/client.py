"""The parent's handle on a worker process: requests with time limits, and replacement."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from experiments import child
from experiments.child import Child, ChildError
from experiments.errors import UserError

START_LIMIT_S = 180.0
START_ATTEMPTS = 3
LEAVING_LIMIT_S = 60.0


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


class Worker:
    """One worker process on one card, started when first needed and again after it died."""

    def __init__(self, device: str, card: int, log: Path, measures: bool = False) -> None:
        """A worker that ``measures`` prepares for measuring before the first request."""
        self.device, self.card, self.log, self.measures = device, card, log, measures
        self.handshake: dict[str, Any] = {}  # of the last process that was up
        self._up = False
        self._requests = 0
        self._child: Child | None = None
        self._beside: dict[str, Worker] = {}  # for each file from outside
        self._judge: Worker | None = None  # of such a file's answers; it never imports the file

    def of_kernel(self, kernel: Mapping[str, Any]) -> Worker:
        """The worker that a kernel runs in: this one, or another for each file from outside.

        Whatever such a file changes in its process reaches no other kernel.
        """
        file = kernel.get("file")
        if file is None or self._judge is not None:
            return self
        if file not in self._beside:
            self._beside[file] = Worker(self.device, self.card, self.log, self.measures)
            self._beside[file]._judge = self
        return self._beside[file]

    def spawn(self) -> None:
        """Starts its process if there is none, and does not wait until it is up.

        Linux ends a worker together with the thread that it was started from.

        Raises:
            WorkerError: its card is not visible, or its log is not a file.
        """
        if self._child is not None:
            return
        if self.device == "cuda" and not drives():
            raise WorkerError("this machine has no CUDA driver; use gpu=auto or gpu=cpu")
        command = ["-m", "experiments.worker", "--device", self.device]
        command += ["--prepare"] * self.measures
        try:
            self._child = Child(command, environment(self.device, self.card), self.log)
        except OSError as error:
            raise WorkerError(f"{self.log} cannot be written: {error.strerror}") from None
        self._up = False

    def start(self) -> dict[str, Any]:
        """Starts it if it is not running, and gives its device and environment.

        A worker that dies as it starts is started again, `START_ATTEMPTS` times in all.

        Raises:
            WorkerError: it did not come up, or has no such device.
        """
        for left in reversed(range(START_ATTEMPTS)):
            self.spawn()
            assert self._child is not None
            if self._up:
                return self.handshake
            try:
                handshake = self._child.receive(START_LIMIT_S)
                break
            except (ChildError, TimeoutError) as error:
                self.stop()
                why = str(error) or f"no sign of life after {START_LIMIT_S:g} s"
                if not left or isinstance(error, TimeoutError):
                    raise WorkerError(f"the worker did not start: {why}; see {self.log}") from None
        if "error" in handshake:
            self.stop()
            raise WorkerError(str(handshake["error"]))
        self.handshake, self._up = handshake, True
        return handshake

    def request(
        self, message: Mapping[str, Any], limits_s: Mapping[str, float], first: str
    ) -> dict[str, Any]:
        """Sends a request and waits for its reply.

        Args:
            message: The request.
            limits_s: For each stage that the worker announces, how long it may last.
            first: The stage it is in until it announces one.

        Raises:
            WorkerDied: it crashed, sent no proper answer, or a stage outlasted its limit and it was
                killed. The next request starts another.
        """
        self.start()
        child, stage = self._child, first
        if child is None:  # killed meanwhile
            raise WorkerDied("crashed", f"the worker was ended while {stage}")
        self._requests += 1
        try:
            child.send({**message, "number": self._requests})
            while True:
                answer = child.receive(limits_s[stage])
                reply = answer.get("reply")
                if "judge" in answer and self._judge is not None:
                    question = {"do": "judge", "path": str(answer["judge"])}
                    child.send({"verdict": self._judge.request(question, limits_s, stage)})
                elif answer.get("stage") in [*limits_s]:
                    stage = answer["stage"]
                elif isinstance(reply, dict) and answer.get("number") == self._requests:
                    return reply
                else:
                    raise ChildError(f"it sent {str(answer)[:60]}, which is not an answer")
        except (TimeoutError, ChildError, WorkerDied) as error:
            self.stop()
            if isinstance(error, WorkerDied):  # the judge did
                raise
            if isinstance(error, TimeoutError):
                late = f"{stage} took more than {limits_s[stage]:g} s"
                raise WorkerDied("timeout", late) from None
            raise WorkerDied("crashed", f"the worker died while {stage}: {error}") from None

    def stop(self, patience_s: float = 0.0) -> None:
        """Ends the process and its children, after ``patience_s`` seconds to end by itself.

        A profiler loses the records that a killed process had not handed over.
        """
        child, self._child = self._child, None
        if child is not None:
            child.close(patience_s)
        for worker in self._beside.values():
            worker.stop(patience_s)

    def kill(self) -> None:
        """Kills its processes; the thread that waits for an answer gets an error."""
        for worker in (self, *self._beside.values()):
            if (child := worker._child) is not None:
                child.kill()


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
    if device != "cpu" and limited is None:
        variables["CUDA_VISIBLE_DEVICES"] = str(card)
    elif device != "cpu" and limited:  # empty hides every card, and is left so
        visible = limited.split(",")
        if card >= len(visible):
            raise WorkerError(f"card {card} is not among the {len(visible)} visible ones")
        variables["CUDA_VISIBLE_DEVICES"] = visible[card]
    # as NVML numbers them: the card that is locked must be the one that is timed
    variables["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"
    return variables
