"""A shard's job, on its node: an ordinary sweep on the one card that Slurm gave it."""

from __future__ import annotations

import hashlib
import itertools
import signal
import sys
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
from experiments.sweep.record import write_json


def shard_folder(out: Path, shard: str) -> Path:
    """The folder of a shard's own sweep."""
    return out / "shards" / shard


def state_file(out: Path, shard: str) -> Path:
    """What a shard's latest job says of itself: what it was asked for, and how it ended."""
    return out / "slurm" / "shards" / f"{shard}.json"


@dataclass(frozen=True)
class Task:
    """What a Slurm job is submitted with.

    Attributes:
        id: The shard's folder.
        name: The shard as people read it: grid, GPU and variation.
        jobs: What the shard measures, its roofs among them.
        out: The whole sweep's folder, an absolute path on the shared file system.
        sweep: The sweep's name.
        points: How many points it has.
        request: Digest of what is asked.
        on_card: Whether Slurm was asked for a card, so that a CPU cannot stand in.
    """

    id: str
    name: str
    jobs: tuple[Job, ...]
    out: str
    sweep: str
    points: int
    request: str
    on_card: bool


def measure_shard(task: Task) -> None:
    """Measures what is missing of a shard; exits with its sweep's status."""
    # submitit would measure on after scancel, until it is killed, and ask to be started again
    signal.signal(signal.SIGTERM, _leave)
    signal.signal(signal.SIGUSR2, _leave)
    out = Path(task.out)
    state: dict[str, Any] = {"job": job_number()}

    def planned(points: Sequence[Point]) -> None:
        state["asked"] = [[point.key, point.round] for point in points]
        write_json(state_file(out, task.id), state)

    ended: dict[str, Any] = {"status": 0, "error": None}
    try:
        write_json(shard_folder(out, task.id) / "sweep.json", {"sweep": task.sweep})
        place = Place(lambda worker: card_number(task, worker), task.on_card, planned)
        run(task.jobs, None, place=place)
    except SweepFailed as failure:
        ended = {"status": 1, "error": str(failure) or None}
    except UserError as refusal:
        print(f"error: {refusal}", file=sys.stderr)
        ended = {"status": 1, "error": str(refusal)}
    write_json(state_file(out, task.id), state | ended)
    if ended["status"]:
        sys.exit(ended["status"])


def job_number() -> str:
    """This job's number, as Slurm prints it."""
    import submitit

    return str(submitit.JobEnvironment().job_id)


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
