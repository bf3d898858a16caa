"""From jobs to points: workers say what each job would run, and nothing is measured yet."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from experiments.cards import description_of
from experiments.client import Worker, WorkerDied
from experiments.errors import UserError
from experiments.jobs import Job, roof_overrides
from experiments.points import Point, interleave, points_of
from experiments.process import WorkerError

DESCRIBE_LIMIT_S = 300.0
ROOF = "copy"  # the configuration that every shard holds, whatever else was asked for


@dataclass
class Crew:
    """The sweep's workers, one for each device and card, started when first asked for."""

    log: Path
    workers: dict[tuple[str, int], Worker] = field(default_factory=dict)

    def worker(self, device: str, card: int) -> Worker:
        """The worker on a card."""
        if (device, card) not in self.workers:
            self.workers[device, card] = Worker(device, card, self.log)
        return self.workers[device, card]

    def dismiss(self) -> None:
        """Ends all workers."""
        for worker in self.workers.values():
            worker.stop()


@dataclass
class Plan:
    """A sweep ready to run.

    Attributes:
        jobs: All jobs, the roof's among them.
        variants: By job name, what the worker said of it.
        visits: Round after round, the points of each shard in order, with the worker that takes
            them; the shards' order is each round's own.
        points: By job name, the identities it asked for; jobs may share points.
        asked: Every point once.
    """

    jobs: list[Job]
    variants: dict[str, dict[str, Any]] = field(default_factory=dict)
    visits: list[tuple[Worker, list[Point]]] = field(default_factory=list)
    points: dict[str, list[tuple[str, int, int]]] = field(default_factory=dict)
    asked: list[Point] = field(default_factory=list)


def plan(
    jobs: Sequence[Job], compose: Callable[[list[str]], Job], crew: Crew, cards: Sequence[int]
) -> Plan:
    """Describes every job, adds the roof where a shard lacks one, and orders the points.

    Args:
        jobs: As Hydra composed them.
        compose: Makes a job of overrides, for the roof.
        crew: Where workers come from.
        cards: Cards that shards are dealt to, in turn.

    Raises:
        UserError: naming the job at fault and why; nothing has been measured.
    """
    shards = list(dict.fromkeys(job.shard for job in jobs))
    card_of = {shard: cards[i % len(cards)] for i, shard in enumerate(shards)}

    def place(job: Job) -> Worker:
        pinned = job.config["gpu"]["card"]
        card = card_of[job.shard] if pinned is None else pinned
        device = job.config["gpu"]["device"]
        if device == "cpu":
            return crew.worker(device, 0)
        # a card that was named must be there, and not give way to the CPU
        named = pinned is not None or card != 0
        return crew.worker("cuda" if named else device, card)

    result = Plan(jobs=list({job.name: job for job in jobs}.values()))
    for job in result.jobs:
        result.variants[job.name] = _describe(job, place(job))
    with_roof = {j.neighbours for j in result.jobs if result.variants[j.name]["operation"] == ROOF}
    for job in list(result.jobs):
        if job.neighbours not in with_roof:
            with_roof.add(job.neighbours)
            roof = compose(roof_overrides(job, ROOF))
            result.variants[roof.name] = _describe(roof, place(roof))
            result.jobs.append(roof)
    first = result.jobs[0].config
    seen: set[tuple[str, int, int]] = set()
    for round_ in range(first["rounds"]):
        order = random.Random(f"{first['seed']}/{round_}/shards").sample(shards, len(shards))
        for shard in order:
            visit: list[Point] = []
            members = [job for job in result.jobs if job.shard == shard]
            for job in members:
                worker = place(job)
                variant = result.variants[job.name]
                mine = points_of(job, variant, worker.hello, worker.card, round_)
                result.points.setdefault(job.name, []).extend(p.identity for p in mine)
                visit += [p for p in mine if p.identity not in seen]
                seen.update(p.identity for p in mine)
            result.visits.append((place(members[0]), interleave(visit, first["seed"], round_)))
            result.asked += visit
    return result


def _describe(job: Job, worker: Worker) -> dict[str, Any]:
    gpu, timer = job.config["gpu"], job.config["timing"]["timer"]
    try:
        hello = worker.start()
    except WorkerError as error:
        where = f" card {worker.card}" if worker.card else ""
        raise UserError(f"gpu={job.gpu}{where}: {error}") from None
    name = hello["device"]["name"]
    if gpu["match"] and not re.search(gpu["match"], name):
        raise UserError(f"gpu={job.gpu} wants {gpu['name']}, but this is {name}; use gpu=auto")
    if hello["device"]["kind"] == "cpu" and timer in ("events", "graph"):
        raise UserError(f"timing.timer={timer} needs a CUDA device; on a CPU use auto or host")
    if gpu["device"] == "auto":  # becomes the card that was found, with its datasheet
        gpu["name"] = name
        gpu["facts"] = (description_of(name) or {}).get("facts", {})
    request = {"kernel": job.config["kernel"], "shapes": job.shapes, "dtypes": job.dtypes}
    limits = {"describing": DESCRIBE_LIMIT_S}
    try:
        reply = worker.request({"do": "describe", "job": request}, limits, "describing")
    except WorkerDied as error:
        raise UserError(f"kernel={job.kernel}: {error}; see {worker.log}") from None
    if "error" in reply:
        raise UserError(f"kernel={job.kernel}: {reply['error']}")
    return reply
