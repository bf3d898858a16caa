"""From jobs to points: workers say what each job would run, and nothing is measured yet."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from experiments.data.cards import description_of
from experiments.errors import UserError
from experiments.sweep.client import Worker, WorkerDied, WorkerError
from experiments.sweep.crew import Crew
from experiments.sweep.homes import Shard, settle
from experiments.sweep.jobs import Job, roof_overrides
from experiments.sweep.ledger import Ledger
from experiments.sweep.points import Point, interleave, points_of

DESCRIBE_LIMIT_S = 300.0
ROOF = "copy"  # the configuration that every shard holds, whatever else was asked for


@dataclass
class Plan:
    """A sweep ready to run.

    Attributes:
        jobs: All jobs, the roof's among them.
        variants: By job name, what the worker said of it.
        posts: The workers that shards may go to, by card; none for a sweep on the CPU.
        rounds: The shards in each round's own order.
    """

    jobs: list[Job]
    variants: dict[str, dict[str, Any]] = field(default_factory=dict)
    posts: dict[int, Worker] = field(default_factory=dict)
    rounds: list[list[Shard]] = field(default_factory=list)

    @property
    def points(self) -> dict[str, list[tuple[str, int, int]]]:
        """By job name, the identities it asked for; jobs may share points."""
        return {
            name: [(key, shard.card, round_) for key, round_ in asked]
            for shard in self.rounds[0]
            for name, asked in shard.jobs.items()
        }

    @property
    def asked(self) -> list[Point]:
        """Every point once, round after round, each shard's together."""
        visits = (shard.visits[i] for i, order in enumerate(self.rounds) for shard in order)
        return list({point.identity: point for visit in visits for point in visit}.values())


def plan(
    jobs: Sequence[Job],
    compose: Callable[[list[str]], Job],
    crew: Crew,
    cards: Sequence[int],
    ledger: Ledger | None = None,
) -> Plan:
    """Describes every job, adds the roof where a shard lacks one, and orders the points.

    Args:
        jobs: As Hydra composed them.
        compose: Makes a job of overrides, for the roof.
        crew: Where workers come from.
        cards: Cards that shards are dealt to.
        ledger: The rows there are: a shard goes on where it began.

    Raises:
        UserError: naming the job at fault and why; nothing has been measured.
    """
    result = Plan(jobs=list({job.name: job for job in jobs}.values()))
    place = crew.places(result.jobs, cards)
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
    members: dict[tuple[str, str, str], list[Job]] = {}
    for job in result.jobs:
        members.setdefault(job.shard, []).append(job)
    shards = [_shard(mine, result.variants, place(mine[0])) for mine in members.values()]
    if any(shard.free for shard in shards):
        result.posts = crew.posts(cards)
        settle(shards, result.posts, ledger, first["overwrite"])
    for round_ in range(first["rounds"]):
        dice = random.Random(f"{first['seed']}/{round_}/shards")
        result.rounds.append(dice.sample(shards, len(shards)))
    return result


def _shard(jobs: Sequence[Job], variants: dict[str, dict[str, Any]], worker: Worker) -> Shard:
    """The jobs' points in each round; as each worker of a kind says the same, on any card."""
    config = jobs[0].config
    pinned = config["gpu"]["device"] == "cpu" or config["gpu"]["card"] is not None
    shard = Shard(" ".join(filter(None, jobs[0].shard)), worker.card, worker, free=not pinned)
    for round_ in range(config["rounds"]):
        visit: dict[str, Point] = {}
        for job in jobs:
            mine = points_of(job, variants[job.name], worker.hello, worker.card, round_)
            shard.jobs.setdefault(job.name, []).extend((p.key, round_) for p in mine)
            for point in mine:
                visit.setdefault(point.key, point)
        shard.visits.append(interleave(visit.values(), config["seed"], round_))
    return shard


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
        asked = {"do": "describe", "job": request}
        reply = worker.request(asked, limits, "describing", attempts=2)
    except WorkerDied as error:
        raise UserError(f"kernel={job.kernel}: {error}; see {worker.log}") from None
    if "error" in reply:
        raise UserError(f"kernel={job.kernel}: {reply['error']}")
    return reply
