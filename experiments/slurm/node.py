"""A shard's job, on its node: an ordinary sweep on the one card that Slurm gave it."""

from __future__ import annotations

import hashlib
import itertools
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from experiments.errors import SweepFailed, UserError
from experiments.sweep.client import Worker
from experiments.sweep.driver import Place, run
from experiments.sweep.jobs import Job
from experiments.sweep.plan import Point
from experiments.sweep.record import Ledger, read_object, write_json

REPORT_EVERY_S = 1.0


def submitted(out: Path) -> Path:
    """What the submitting side asked for: the sweep's name, and each shard's latest submission."""
    return out / "slurm" / "submitted.json"


def shard_folder(out: Path, shard: str) -> Path:
    """The folder of a shard's own sweep."""
    return out / "shards" / shard


def state_file(out: Path, shard: str) -> Path:
    """How a shard's latest job stands, as it says itself."""
    return out / "slurm" / "shards" / shard / "state.json"


@dataclass(frozen=True)
class Task:
    """What a Slurm job is submitted with.

    Attributes:
        id: The shard's folder.
        name: The shard as people read it: grid, GPU and variation.
        jobs: What the shard measures, its roofs among them.
        out: The whole sweep's folder, an absolute path on the shared file system.
        sweep: The sweep's name.
        points: How many points it has, as far as configuration says.
        request: Digest of what is asked.
        token: Names this submission of the shard; a later one takes the shard from it.
        on_card: Whether Slurm was asked for a card, so that a CPU is no substitute.
    """

    id: str
    name: str
    jobs: tuple[Job, ...]
    out: str
    sweep: str
    points: int
    request: str
    token: str
    on_card: bool


class Submission:
    """One submission of a shard: it has the shard's folder until a later one takes it.

    Its state is in `state_file`: how many points there are, how many of them have
    a row of expected status (``done``) or another last row (``failed``), how many ``rows`` this
    submission added, and at its end a status.
    """

    def __init__(self, task: Task) -> None:
        self.task = task
        self._file = state_file(Path(task.out), task.id)
        before = read_object(self._file)
        self._state = {key: before.get(key, 0) for key in ("points", "done", "failed")}
        self._state |= {"token": task.token, "rows": 0}
        self._began = self._written = time.monotonic()
        self._latest: tuple[Sequence[Point], Ledger] | None = None

    def check(self) -> None:
        """Makes sure that nobody submitted the shard again: a node lost from sight may go on.

        Raises:
            UserError: somebody did.
        """
        try:
            known = read_object(submitted(Path(self.task.out))).get("shards", {})
        except OSError:  # a shared file system, while the file is replaced
            return
        if known.get(self.task.id, self.task.__dict__)["token"] != self.task.token:
            raise UserError("this shard was submitted again; the later job goes on with it")

    def close(self) -> None:
        """The folder needs no release: the next submission names itself."""

    def report(self, points: Sequence[Point], ledger: Ledger) -> None:
        """Writes how many points are done, once a second at most."""
        first = self._latest is None
        self._latest = points, ledger
        if first:
            asked = [[point.key, point.round] for point in points]
            write_json(self._file.with_name("asked.json"), {"points": asked})
        else:
            self._state["rows"] += 1
        if first or time.monotonic() - self._written > REPORT_EVERY_S:
            self._written = time.monotonic()
            write_json(self._file, self._counted())

    def _counted(self) -> dict[str, Any]:
        if self._latest is None:
            return self._state
        points, ledger = self._latest
        rows = [ledger.latest(point.identity) for point in points]
        done = sum(row is not None and row.expected for row in rows)
        failed = sum(row is not None and not row.expected for row in rows)
        return self._state | {"points": len(points), "done": done, "failed": failed}

    def end(self, status: int, error: str | None) -> None:
        """Writes how the job ended, unless the shard is another's by now."""
        try:
            self.check()
        except UserError:
            return
        ended = {"status": status, "error": error, "elapsed_s": time.monotonic() - self._began}
        write_json(self._file, self._counted() | ended)


def measure_shard(task: Task) -> None:
    """Measures what is missing of a shard; exits with its sweep's status."""
    # submitit would measure on after scancel, until it is killed, and ask to be started again
    signal.signal(signal.SIGTERM, _leave)
    signal.signal(signal.SIGUSR2, _leave)
    submission = Submission(task)
    place = Place(
        hold=lambda folder: submission,
        number=lambda worker: card_number(task, worker),
        on_card=task.on_card,
        report=submission.report,
    )
    status, error = 0, None
    try:
        submission.check()
        write_json(shard_folder(Path(task.out), task.id) / "sweep.json", {"sweep": task.sweep})
        run(task.jobs, None, [0], place=place)
    except SweepFailed as failure:
        status, error = 1, str(failure) or None
    except UserError as refusal:
        print(f"error: {refusal}", file=sys.stderr)
        status, error = 1, str(refusal)
    submission.end(status, error)
    if status:
        sys.exit(status)


def card_number(task: Task, worker: Worker) -> int:
    """A card's number in a sweep: 0 for the first that any shard met, and so on.

    On a cluster every job sees its card as the first one, and rows of two cards must not compare.
    The number is given once, by a file that only one node can create; it does not reveal the
    card's serial number.
    """
    serial = worker.handshake.get("serial")
    if serial is None:
        return 0
    mark = hashlib.sha256(f"{task.sweep}\0{serial}".encode()).hexdigest()[:16]
    cards = Path(task.out) / "slurm" / "cards"
    cards.mkdir(parents=True, exist_ok=True)
    for number in itertools.count():
        path = cards / str(number)
        try:
            with path.open("x") as file:
                file.write(mark)
            return number
        except FileExistsError:
            if path.read_text() == mark:
                return number
    raise AssertionError("unreachable")


def _leave(number: int, frame: FrameType | None) -> None:
    if number == signal.SIGUSR2:
        raise UserError(
            "its time was up (hydra.launcher.time), or others went first; the same command goes on"
        )
    raise SystemExit(128 + number)
