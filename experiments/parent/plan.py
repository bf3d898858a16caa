"""Turns jobs into points: workers describe what each job would run; nothing is measured yet.

A point is one shape of one job in one dtype and round. A shard is a set of points that one card
measures with their kernels interleaved, so that a ratio compares neighbours in time on one card.
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
# The options of `TimingConfig` that a time depends on. Its limits only decide if there is a time.
PROTOCOL = ("timer", "cache", "warmup", "min_samples", "max_samples", "precision")
KEY_LIBRARIES = ("torch", "triton", "cuda")

# Rough numbers from which a dry run estimates the time of a point
COMPILE_S = {"tilelang": 5.0, "inductor": 1.5, "cute": 0.6, "torchscript": 0.4, "triton": 0.1}
SAMPLES = {"cuda": 150, "cpu": 500}  # until the interval is narrow, which it hardly gets on a CPU
BYTES_PER_S = {"cuda": 1.5e12, "cpu": 4e9}  # memory bandwidth
FLUSH_S = {"cuda": 1e-4, "cpu": 2.5e-2}  # of the last-level cache, before each sample
INTERPRETER_S_PER_ROW = 2e-3
OVERHEAD_S = 0.05  # all else

Identity = tuple[str, int, int]  # key, card and round, as in `Row.identity`


@dataclass(frozen=True)
class Point:
    """One point of one job; its measurement becomes a row."""

    job: Job  # the first job of the sweep that asks for the point; the row goes to its folder
    key: str  # hash of all that decides the measurement
    card: int  # index of the card that measures it
    round: int  # from 0
    gpu: str  # the device's name, by its driver
    device: str  # ``cuda`` or ``cpu``
    variant: Mapping[str, Any]  # the worker's description of the job: operation, params, formula
    declared: Mapping[str, Any]  # its description of the point: rows, cols, dtype, traffic, refusal

    @property
    def identity(self) -> Identity:
        """Key, card and round: its rows have the same."""
        return self.key, self.card, self.round

    @property
    def workload(self) -> tuple[str, int, int]:
        """Dtype, rows and cols."""
        return self.declared["dtype"], self.declared["rows"], self.declared["cols"]

    @property
    def needs_outside(self) -> bool:
        """Whether to measure it only if an outside kernel gave a right answer at its workload."""
        return bool(self.job.config["only_beside"]) and not self.job.is_outside

    @property
    def refusal(self) -> dict[str, Any] | None:
        """The outcome if it cannot be measured (unsupported, wrongly declared), otherwise None."""
        return self.declared["refusal"]  # type: ignore[no-any-return]

    @property
    def estimate_s(self) -> float:
        """A rough estimate of the seconds that its measurement takes."""
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
    """The hash of all that decides a measurement; points with equal keys may share a row."""
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
    if job.is_outside:  # the user names these two; the file's source does not have them
        measured["operation"], measured["formula"] = variant["operation"], variant["formula"]
    if job.config["determinism"]:  # only if it is on: older rows keep their keys
        measured["determinism"] = True
    text = json.dumps(measured, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:20]


def _interleave(points: Iterable[Point], seed: int, round_: int) -> list[Point]:
    """Shuffles a shard's points of one round: shapes at random, the kernels of a shape together."""
    generator = random.Random(f"{seed}/{round_}")
    rank = defaultdict[tuple[str, int, int], float](generator.random)
    # the kernels of a shape are shuffled as well, so that none always follows the same other one
    return sorted(points, key=lambda x: (rank[x.workload], x.needs_outside, generator.random()))


@dataclass
class Plan:
    """What a sweep is to measure."""

    jobs: list[Job]  # the roofs' jobs included
    variants: dict[str, dict[str, Any]]  # by job name, the worker's description of the job
    points: list[Point]  # each point once, round after round, in the order of measuring
    asked: dict[str, list[Identity]]  # by job name, the points of the job; jobs may share points


def make_plan(jobs: Sequence[Job], pool: WorkerPool) -> Plan:
    """Describes every job, assigns the shards to cards, and orders the points.

    The pool's workers are started already.

    Raises:
        UserError: a job cannot be run; the message names it and says why.
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
        generator = random.Random(f"{seed}/{round_}/shards")
        for shard in generator.sample([*shards], len(shards)):
            by_key = dict[str, Point]()  # jobs of the shard may share points
            for point in shards[shard]:
                now = replace(point, card=cards[shard], round=round_)
                asked[now.job.name].append(now.identity)
                by_key.setdefault(now.key, now)
            for now in _interleave(by_key.values(), seed, round_):
                points.setdefault(now.identity, now)  # another shard may have the point, too
    return Plan(list(jobs), variants, [*points.values()], asked)


def _points_of(job: Job, variant: Mapping[str, Any], worker: Worker) -> list[Point]:
    """The points of a job, with round 0 and the worker's card for now."""
    where = worker.card, 0, worker.handshake["device"]["name"], worker.handshake["device"]["kind"]
    return [
        Point(job, key_of(job, variant, one, worker.handshake), *where, variant, one)
        for one in variant["points"]
        if not job.only or (one["dtype"], one["rows"], one["cols"]) in job.only
    ]


def _cards_of(
    shards: Mapping[tuple[str, ...], Sequence[Point]], pool: WorkerPool
) -> dict[tuple[str, ...], int]:
    """The card of each shard: the one that it pins, else the one with the least work so far."""
    found = {shard: points[0].card for shard, points in shards.items()}
    cost_s = {
        shard: sum(point.estimate_s for point in points)
        for shard, points in shards.items()
        for gpu in [points[0].job.config["gpu"]]
        if gpu["device"] != "cpu" and gpu["card"] is None
    }
    left_s = dict.fromkeys(pool.cards_of_one_kind() if cost_s else (), 0.0)
    # always in the same order, so that a resumed sweep assigns each shard to the same card again
    for shard in sorted(cost_s, key=lambda one: -cost_s[one]):
        found[shard] = min(left_s, key=lambda card: left_s[card])
        left_s[found[shard]] += cost_s[shard]
    return found


def _describe(job: Job, worker: Worker) -> dict[str, Any]:
    """The worker's description of a job. Sets ``gpu.name`` and ``gpu.facts`` in its config.

    Raises:
        UserError: the device is missing or not the one asked for, or the kernel cannot be built.
    """
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
    if not gpu["match"] and gpu["device"] != "cpu":  # describe the card that was found
        gpu["name"] = name
        gpu["facts"] = (description_of(name) or {}).get("facts", {})
    asked = {"kernel": job.config["kernel"], "shapes": job.shapes, "dtypes": job.dtypes}
    try:
        reply = worker.request({"do": "describe", "job": asked}, describing=DESCRIBE_LIMIT_S)
    except WorkerDied as error:
        raise UserError(f"kernel={job.kernel}: {error}; see {worker.log}") from None
    if "error" in reply:
        raise UserError(f"kernel={job.kernel}: {reply['error']}")
    if not job.is_outside and reply["roof"] != job.roof:  # `with_roofs` would add a wrong roof
        says = f"its operation names the roof {reply['roof']}, its file of conf/kernel {job.roof}"
        raise UserError(f"kernel={job.kernel}: {says}; write roof: {reply['roof']} there")
    return reply
