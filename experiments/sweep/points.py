"""Points: one shape of one job in one dtype and round, and the order they are measured in."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from experiments.sweep.jobs import Job

# The parts of the protocol that decide what a time means. Limits only decide whether there is one.
PROTOCOL = ("timer", "cache", "warmup", "min_samples", "max_samples", "precision")
LIBRARIES = ("torch", "triton", "cuda")


@dataclass(frozen=True)
class Point:
    """One row to be.

    Attributes:
        job: The first job of the sweep that asks for it; its folder takes the row.
        key: Hash of what is measured.
        card: Index of the card it is measured on.
        round: Which visit it is.
        gpu: The device's name.
        device: ``cuda`` or ``cpu``.
        variant: The worker's description of the job: operation, backend, params, formula.
        declared: Rows, cols, dtype, traffic and whether it is unsupported, as described.
    """

    job: Job
    key: str
    card: int
    round: int
    gpu: str
    device: str
    variant: Mapping[str, Any]
    declared: Mapping[str, Any]

    @property
    def identity(self) -> tuple[str, int, int]:
        """As a row's: key, card and round."""
        return self.key, self.card, self.round

    @property
    def place(self) -> tuple[str, int, int]:
        """What its neighbours in time share: dtype, rows, cols."""
        return self.declared["dtype"], self.declared["rows"], self.declared["cols"]

    def __str__(self) -> str:
        dtype, rows, cols = self.place
        return f"{self.job.label} {rows}×{cols} {dtype}"


def key_of(
    job: Job, variant: Mapping[str, Any], declared: Mapping[str, Any], hello: Mapping[str, Any]
) -> str:
    """The hash that says what is measured; equal keys may share a row."""
    timing, versions = job.config["timing"], hello["environment"]
    said = {
        "kernel": job.kernel,
        "target": variant["target"],
        "params": variant["params"],
        "source": variant["source"],
        "point": [declared["rows"], declared["cols"], declared["dtype"]],
        "gpu": hello["device"]["name"],
        "seed": job.config["seed"],
        "protocol": {name: timing[name] for name in PROTOCOL},
        "libraries": {name: versions[name] for name in LIBRARIES} | variant["packages"],
    }
    text = json.dumps(said, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:20]


def points_of(
    job: Job, variant: Mapping[str, Any], hello: Mapping[str, Any], card: int, round_: int
) -> list[Point]:
    """A job's points in one round, in the order of its grid."""
    device = hello["device"]
    return [
        Point(
            job=job,
            key=key_of(job, variant, declared, hello),
            card=card,
            round=round_,
            gpu=device["name"],
            device=device["kind"],
            variant=variant,
            declared=declared,
        )
        for declared in variant["points"]
    ]


def interleave(points: Iterable[Point], seed: int, round_: int) -> list[Point]:
    """A shard's points of one round: shapes in random order, and all kernels at a shape together.

    A ratio or a share of the roof then compares neighbours in time; the kernels' order among
    themselves is random too, so that no kernel always follows the same one.
    """
    dice = random.Random(f"{seed}/{round_}")
    places: dict[tuple[str, int, int], list[Point]] = {}
    for point in points:
        places.setdefault(point.place, []).append(point)
    order = list(places)
    dice.shuffle(order)
    for group in places.values():
        dice.shuffle(group)
    return [point for place in order for point in places[place]]
