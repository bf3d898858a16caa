"""Workers that end by themselves: a profiler loses what a killed process had not handed over."""

from __future__ import annotations

import contextlib
import subprocess

from experiments.sweep.client import Worker
from experiments.sweep.crew import Crew

LEAVING_LIMIT_S = 60.0


class PatientWorker(Worker):
    """A worker that may end by itself."""

    def leave(self) -> None:
        """Closes its requests, which ends it, and waits for that."""
        process = self._process
        if process is not None and process.stdin is not None:
            with contextlib.suppress(BrokenPipeError, subprocess.TimeoutExpired):
                process.stdin.close()
                process.wait(LEAVING_LIMIT_S)
        self.stop()


class PatientCrew(Crew):
    """A crew of patient workers."""

    def worker(self, device: str, card: int) -> Worker:
        """The worker on a card."""
        if (device, card) not in self.workers:
            self.workers[device, card] = PatientWorker(device, card, self.log)
        return self.workers[device, card]

    def dismiss(self) -> None:
        """Lets all workers end."""
        for worker in self.workers.values():
            assert isinstance(worker, PatientWorker)
            worker.leave()
        super().dismiss()
