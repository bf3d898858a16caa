"""The parent's handle on a worker process: requests with time limits, and replacement."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

START_LIMIT_S = 180.0
ROOT = Path(__file__).parent.parent


class WorkerError(Exception):
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

    def __init__(self, device: str, card: int, log: Path) -> None:
        self.device = device
        self.card = card
        self.log = log
        self.hello: dict[str, Any] = {}
        self._process: subprocess.Popen[str] | None = None
        self._lines: queue.Queue[str | None] = queue.Queue()

    def start(self) -> dict[str, Any]:
        """Starts it if it is not running, and gives its device and environment.

        Raises:
            WorkerError: it did not come up, or has no such device.
        """
        if self._process is not None:
            return self.hello
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "experiments.worker", "--device", self.device],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=self._environment(),
                start_new_session=True,  # Ctrl-C is the parent's to handle
            )
        self._lines = queue.Queue()
        pipe = self._process.stdout
        assert pipe is not None
        threading.Thread(target=_pump, args=(pipe, self._lines), daemon=True).start()
        try:
            self.hello = self._receive(time.monotonic() + START_LIMIT_S)
        except (WorkerDied, TimeoutError) as error:
            self.stop()
            why = str(error) or f"no sign of life after {START_LIMIT_S:g} s"
            raise WorkerError(f"the worker did not start: {why}; see {self.log}") from None
        if "error" in self.hello:
            self.stop()
            raise WorkerError(self.hello["error"])
        return self.hello

    def request(
        self, message: dict[str, Any], limits_s: Mapping[str, float], first: str
    ) -> dict[str, Any]:
        """Sends a request and waits for its reply.

        Args:
            message: The request.
            limits_s: For each stage that the worker announces, how long it may last.
            first: The stage it is in until it announces one.

        Raises:
            WorkerDied: it crashed, or a stage outlasted its limit and it was killed. The next
                request starts another.
        """
        self.start()
        process = self._process
        assert process is not None and process.stdin is not None
        stage = first
        try:
            process.stdin.write(json.dumps(message) + "\n")
            process.stdin.flush()
            while True:
                answer = self._receive(time.monotonic() + limits_s[stage])
                if "stage" not in answer:
                    reply: dict[str, Any] = answer["reply"]
                    return reply
                stage = answer["stage"]
        except TimeoutError:
            self.stop()
            raise WorkerDied("timeout", f"{stage} took more than {limits_s[stage]:g} s") from None
        except (WorkerDied, BrokenPipeError):
            how = _ending(process)
            self.stop()
            raise WorkerDied("crashed", f"the worker died while {stage}: {how}") from None

    def stop(self) -> None:
        """Kills the process and its children; nothing of value is in them."""
        process, self._process = self._process, None
        if process is None:
            return
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                try:
                    pipe.close()
                except BrokenPipeError:
                    pass

    def _receive(self, deadline: float) -> dict[str, Any]:
        try:
            line = self._lines.get(timeout=max(deadline - time.monotonic(), 0.001))
        except queue.Empty:
            raise TimeoutError from None
        if line is None:
            raise WorkerDied("crashed", "it ended without an answer")
        message: dict[str, Any] = json.loads(line)
        return message

    def _environment(self) -> dict[str, str]:
        environment = dict(os.environ)
        environment.pop("TRITON_INTERPRET", None)  # the worker decides by its device
        environment["PYTHONPATH"] = os.pathsep.join(
            [str(ROOT), *filter(None, [environment.get("PYTHONPATH")])]
        )
        visible = [c for c in environment.get("CUDA_VISIBLE_DEVICES", "").split(",") if c]
        if self.device != "cpu":
            if visible and self.card >= len(visible):
                raise WorkerError(f"card {self.card} is not among the {len(visible)} visible ones")
            environment["CUDA_VISIBLE_DEVICES"] = visible[self.card] if visible else str(self.card)
        environment.setdefault("CUDA_DEVICE_ORDER", "PCI_BUS_ID")
        return environment


def _pump(pipe: IO[str], lines: queue.Queue[str | None]) -> None:
    try:
        for line in pipe:
            lines.put(line)
    except ValueError:  # closed under us by stop()
        pass
    lines.put(None)


def _ending(process: subprocess.Popen[str]) -> str:
    try:
        code = process.wait(timeout=5)
    except subprocess.TimeoutExpired:
        return "it closed its pipe"
    if code < 0:
        return signal.Signals(-code).name
    return f"exit status {code}"
