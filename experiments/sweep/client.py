"""The parent's handle on a worker process: requests with time limits, and replacement."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from experiments.sweep.process import WorkerError, ending, process_of, pump

START_LIMIT_S = 180.0


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
        self.lock: int | None = None  # its card's, which it holds as long as it lives
        self.hello: dict[str, Any] = {}
        self._up = False
        self._process: subprocess.Popen[str] | None = None
        self._retired = False
        self._birth = threading.Lock()
        self._lines: queue.Queue[str | None] = queue.Queue()

    def spawn(self) -> None:
        """Starts its process if there is none, and does not wait until it is up.

        Linux ends a worker together with the thread that it was started from.

        Raises:
            WorkerError: its card is not visible, or it was ended for good.
        """
        if self._process is not None:
            return
        with self._birth:
            if self._retired:
                raise WorkerError("the sweep is ending")
            self._process = process_of(self.device, self.card, self.log, self.lock)
        self._lines, self._up = queue.Queue(), False
        pipe = self._process.stdout
        assert pipe is not None
        threading.Thread(target=pump, args=(pipe, self._lines), daemon=True).start()

    def start(self) -> dict[str, Any]:
        """Starts it if it is not running, and gives its device and environment.

        Raises:
            WorkerError: it did not come up, or has no such device.
        """
        self.spawn()
        if self._up:
            return self.hello
        try:
            self.hello = self._receive(time.monotonic() + START_LIMIT_S)
        except (WorkerDied, TimeoutError) as error:
            self.stop()
            why = str(error) or f"no sign of life after {START_LIMIT_S:g} s"
            raise WorkerError(f"the worker did not start: {why}; see {self.log}") from None
        if "error" in self.hello:
            self.stop()
            raise WorkerError(self.hello["error"])
        self._up = True
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
        assert process is not None
        assert process.stdin is not None
        stage = first
        try:
            process.stdin.write(json.dumps(message) + "\n")
            process.stdin.flush()
            while True:
                answer = self._receive(time.monotonic() + limits_s[stage])
                if "stage" not in answer:
                    return dict(answer["reply"])
                stage = answer["stage"]
        except TimeoutError:
            self.stop()
            raise WorkerDied("timeout", f"{stage} took more than {limits_s[stage]:g} s") from None
        except (WorkerDied, BrokenPipeError):
            how = ending(process)
            self.stop()
            raise WorkerDied("crashed", f"the worker died while {stage}: {how}") from None

    def stop(self) -> None:
        """Kills the process and its children; nothing of value is in them."""
        process, self._process = self._process, None
        if process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()

    def retire(self) -> None:
        """Ends it for good: a lane about to start it again gets a `WorkerError` instead."""
        with self._birth:
            self._retired = True
        self.stop()

    def _receive(self, deadline: float) -> dict[str, Any]:
        try:
            line = self._lines.get(timeout=max(deadline - time.monotonic(), 0.001))
        except queue.Empty:
            raise TimeoutError from None
        if line is None:
            raise WorkerDied("crashed", "it ended without an answer")
        return dict(json.loads(line))
