"""From jobs to points: workers say what each job would run, and nothing is measured yet.

A point is one shape of one job in one dtype and round. Points that run on one card with their
kernels interleaved make a shard, so that a ratio compares neighbours in time on the same card.
"""

import hashlib
import json
import random
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from experiments.data.cards import description_of
from experiments.data.errors import UserError
from experiments.parent.cards import WorkerPool
from experiments.parent.client import Worker, WorkerDied, WorkerError
from experiments.parent.jobs import Job

DESCRIBE_LIMIT_S = 300.0
# The parts of the protocol that decide a time. Limits only decide whether there is one.
PROTOCOL = ("timer", "cache", "warmup", "min_samples", "max_samples", "precision")
KEY_LIBRARIES = ("torch", "triton", "cuda")

# Rough numbers for a dry run: seconds to compile a shape, by backend; samples until the interval is
# narrow, which a CPU's hardly is; a device's bytes a second, its flush; the interpreter's row; all
# else of a point.
COMPILE_S = {"tilelang": 5.0, "inductor": 1.5, "cute": 0.6, "torchscript": 0.4, "triton": 0.1}
SAMPLES = {"cuda": 150, "cpu": 500}
BYTES_PER_S = {"cuda": 1.5e12, "cpu": 4e9}
FLUSH_S = {"cuda": 1e-4, "cpu": 2.5e-2}
INTERPRETER_S_PER_ROW = 2e-3
OVERHEAD_S = 0.05

Identity = tuple[str, int, int]  # key, card and round, as a row's


@dataclass(frozen=True)
class Point:
    """One point of one job, which becomes a row."""

    job: Job  # the first of the sweep that asks for it; its folder takes the row
    key: str  # hash of all that decides the measurement
    card: int  # index of the card it is measured on
    round: int  # which visit it is
    gpu: str  # the device's name
    device: str  # ``cuda`` or ``cpu``
    variant: Mapping[str, Any]  # the worker's description of the job: operation, params, formula
    declared: Mapping[str, Any]  # its description of the point: rows, cols, dtype, traffic, refusal

    @property
    def identity(self) -> Identity:
        """As a row's: key, card and round."""
        return self.key, self.card, self.round

    @property
    def workload(self) -> tuple[str, int, int]:
        """Dtype, rows and cols, which its neighbours in time share."""
        return self.declared["dtype"], self.declared["rows"], self.declared["cols"]

    @property
    def waits(self) -> bool:
        """Whether it is measured only beside a right kernel from outside."""
        return bool(self.job.config["only_beside"]) and not self.job.is_outside

    @property
    def refusal(self) -> dict[str, Any] | None:
        """The outcome of a point that is not measured (unsupported, wrongly declared), or None."""
        return self.declared["refusal"]  # type: ignore[no-any-return]

    @property
    def estimate_s(self) -> float:
        """About how long it takes, in seconds."""
        if self.refusal:
            return 0.0
        backend = self.variant["backend"]
        if backend == "interpreter":
            return OVERHEAD_S + INTERPRETER_S_PER_ROW * float(self.declared["rows"])
        moved_s = float(self.declared["model_bytes"]) / BYTES_PER_S[self.device]
        samples: int = min(SAMPLES[self.device], self.job.config["timing"]["max_samples"])
        sampling_s = samples * (moved_s + FLUSH_S[self.device])
        return OVERHEAD_S + COMPILE_S.get(backend, 0.0) + sampling_s

    def __str__(self) -> str:
        dtype, rows, cols = self.workload
        return f"{self.job.label} {rows}×{cols} {dtype}"


def key_of(
    job: Job, variant: Mapping[str, Any], declared: Mapping[str, Any], handshake: Mapping[str, Any]
) -> str:
    """The hash of all that decides a measurement; equal keys may share a row."""
    timing, versions = job.config["timing"], handshake["environment"]
    measured = {
        "kernel": job.kernel,
        "target": variant["target"],
        "params": variant["params"],
        "source": variant["source"],
        "point": [declared["rows"], declared["cols"], declared["dtype"]],
        "gpu": handshake["device"]["name"],
        "seed": job.config["seed"],
        "protocol": {name: timing[name] for name in PROTOCOL},
        "libraries": {name: versions[name] for name in KEY_LIBRARIES} | variant["packages"],
    }
    if job.is_outside:  # its source says neither
        measured["operation"], measured["formula"] = variant["operation"], variant["formula"]
    if job.config["determinism"]:  # rows from before it was asked for keep their key
        measured["determinism"] = True
    text = json.dumps(measured, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:20]


def _interleave(points: Iterable[Point], seed: int, round_: int) -> list[Point]:
    """A shard's points of one round: shapes in random order, the kernels of each one together."""
    dice = random.Random(f"{seed}/{round_}")
    rank = defaultdict[tuple[str, int, int], float](dice.random)
    # the kernels of a shape are shuffled as well: none always follows the same one
    return sorted(points, key=lambda one: (rank[one.workload], one.waits, dice.random()))


@dataclass
class Plan:
    """What a sweep would measure."""

    jobs: list[Job]  # the roofs' among them
    variants: dict[str, dict[str, Any]]  # by job name, the worker's description of it
    points: list[Point]  # every point once, round after round, in the order of measuring
    asked: dict[str, list[Identity]]  # by job name, its points' identities; jobs may share points


def make_plan(jobs: Sequence[Job], pool: WorkerPool) -> Plan:
    """Describes every job, assigns the shards to cards, and orders the points.

    The pool's workers are started already.

    Raises:
        UserError: naming the job at fault and why; nothing has been measured.
    """
    variants, shards = dict[str, Any](), defaultdict[tuple[str, ...], list[Point]](list)
    for job in jobs:
        variants[job.name] = _describe(job, pool.worker_of(job))
        if mine := _points_of(job, variants[job.name], pool.worker_of(job)):
            shards[job.shard] += mine
    cards = _cards_of(shards, pool)
    points, asked = dict[Identity, Point](), defaultdict[str, list[Identity]](list)
    seed = jobs[0].config["seed"]
    for round_ in range(jobs[0].config["rounds"]):
        dice = random.Random(f"{seed}/{round_}/shards")
        for shard in dice.sample([*shards], len(shards)):
            visit = dict[str, Point]()  # jobs may ask for the same
            for point in shards[shard]:
                now = replace(point, card=cards[shard], round=round_)
                asked[now.job.name].append(now.identity)
                visit.setdefault(now.key, now)
            for now in _interleave(visit.values(), seed, round_):
                points.setdefault(now.identity, now)  # another shard may ask for it, too
    return Plan(list(jobs), variants, [*points.values()], asked)


def _points_of(job: Job, variant: Mapping[str, Any], worker: Worker) -> list[Point]:
    """The points of a job, in round 0 on the worker's card."""
    where = worker.card, 0, worker.handshake["device"]["name"], worker.handshake["device"]["kind"]
    return [
        Point(job, key_of(job, variant, one, worker.handshake), *where, variant, one)
        for one in variant["points"]
        if not job.only or (one["dtype"], one["rows"], one["cols"]) in job.only
    ]


def _cards_of(
    shards: Mapping[tuple[str, ...], Sequence[Point]], pool: WorkerPool
) -> dict[tuple[str, ...], int]:
    """The card of each shard: the one that it pins, or the one with the least to do."""
    found = {shard: points[0].card for shard, points in shards.items()}
    cost_s = {
        shard: sum(point.estimate_s for point in points)
        for shard, points in shards.items()
        for gpu in [points[0].job.config["gpu"]]
        if gpu["device"] != "cpu" and gpu["card"] is None
    }
    left_s = dict.fromkeys(pool.cards_of_one_kind() if cost_s else (), 0.0)
    # a fixed order: a resumed sweep assigns each shard to the card where it began
    for shard in sorted(cost_s, key=lambda one: -cost_s[one]):
        found[shard] = min(left_s, key=lambda card: left_s[card])
        left_s[found[shard]] += cost_s[shard]
    return found


def _describe(job: Job, worker: Worker) -> dict[str, Any]:
    """A worker's description of a job; sets the card's name and datasheet in the job's config."""
    gpu = job.config["gpu"]
    try:
        device = worker.start()["device"]
    except WorkerError as error:
        where = f" card {worker.card}" if worker.card else ""
        raise UserError(f"gpu={job.shard[1]}{where}: {error}") from None
    name = device["name"]
    if gpu["match"] and not re.search(gpu["match"], name):
        raise UserError(
            f"gpu={job.shard[1]} wants {gpu['name']}, but this is {name}; that card is needed"
        )
    timer = job.config["timing"]["timer"]
    if device["kind"] == "cpu" and (timer == "events" or job.in_graph):
        raise UserError(f"timing.timer={timer} needs a CUDA device; on a CPU use auto or host")
    if not gpu["match"] and gpu["device"] != "cpu":  # the card that was found, and its datasheet
        gpu["name"] = name
        gpu["facts"] = (description_of(name) or {}).get("facts", {})
    asked = {"kernel": job.config["kernel"], "shapes": job.shapes, "dtypes": job.dtypes}
    try:
        reply = worker.request({"do": "describe", "job": asked}, describing=DESCRIBE_LIMIT_S)
    except WorkerDied as error:
        raise UserError(f"kernel={job.kernel}: {error}; see {worker.log}") from None
    if "error" in reply:
        raise UserError(f"kernel={job.kernel}: {reply['error']}")
    if not job.is_outside and reply["roof"] != job.roof:  # else no sweep would add its roof
        says = f"its operation names the roof {reply['roof']}, its file of conf/kernel {job.roof}"
        raise UserError(f"kernel={job.kernel}: {says}; write roof: {reply['roof']} there")
    return reply
