"""A sweep divided into shards, each of which becomes a Slurm job."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from experiments.sweep.jobs import Job, roof_overrides
from experiments.sweep.planning import ROOF
from experiments.sweep.points import PROTOCOL


@dataclass(frozen=True)
class Shard:
    """The jobs that one card measures, as they travel to its node.

    Attributes:
        id: Its folder's name.
        name: As people read it.
        jobs: Its jobs.
        roofs: The roof's jobs, for those of the neighbours that may lack one.
        elsewhere: Job name, dtype, rows and cols of the points that an earlier shard measures too,
            and so alone.
    """

    id: str
    name: str
    jobs: tuple[Job, ...]
    roofs: tuple[Job, ...]
    elsewhere: frozenset[tuple[str, str, int, int]] = field(default=frozenset())

    def roof(self, overrides: list[str]) -> Job:
        """The roof's job that these overrides compose; a node composes nothing."""
        return next(roof for roof in self.roofs if list(roof.overrides) == overrides)

    def rows_files(self, out: Path) -> list[Path]:
        """The rows files that are there and that it alone writes."""
        names = dict.fromkeys(job.name for job in (*self.jobs, *self.roofs))
        found = [out / name / "rows.jsonl" for name in names]
        return [path for path in found if path.exists()]

    @property
    def asked(self) -> int:
        """How many points it measures, as far as configuration tells."""
        jobs = {job.name: job for job in (*self.jobs, *self.roofs)}.values()
        places = sum(len(job.dtypes) * len(job.shapes) for job in jobs)
        return (places - len(self.elsewhere)) * int(self.jobs[0].config["rounds"])


def divide(jobs: Sequence[Job], compose: Callable[[list[str]], Job]) -> list[Shard]:
    """The shards of a sweep, in the order of their first jobs.

    Args:
        jobs: As Hydra composed them.
        compose: Makes a job of overrides, for the roofs.
    """
    groups: dict[tuple[str, str, str], list[Job]] = {}
    for job in {job.name: job for job in jobs}.values():
        groups.setdefault(job.shard, []).append(job)
    owners: dict[tuple[str, str, tuple[int, int]], tuple[str, str, str]] = {}
    shards = []
    for place, members in groups.items():
        roofed = {job.neighbours for job in members if job.kernel == ROOF}
        roofs = []
        for job in members:
            if job.neighbours not in roofed:
                roofed.add(job.neighbours)
                roofs.append(compose(roof_overrides(job, ROOF)))
        elsewhere = set()
        for job in (*members, *roofs):
            measured = _measured(job)
            for dtype in job.dtypes:
                for shape in job.shapes:
                    if owners.setdefault((measured, dtype, shape), place) != place:
                        elsewhere.add((job.name, dtype, *shape))
        digest = hashlib.sha256("\0".join(place).encode()).hexdigest()[:12]
        name = " ".join(filter(None, place))
        shards.append(Shard(digest, name, tuple(members), tuple(roofs), frozenset(elsewhere)))
    return shards


def _measured(job: Job) -> str:
    """What decides a job's measurements beside shape and dtype, as far as it is configuration."""
    config = job.config
    protocol = {name: config["timing"][name] for name in PROTOCOL}
    return json.dumps([job.kernel, config["kernel"], config["gpu"], config["seed"], protocol])
