"""From a point and what came of it to a row."""

from __future__ import annotations

import time
from typing import Any

from pydantic import ValidationError

from experiments.data.rows import Row
from experiments.sweep.client import Worker, WorkerDied
from experiments.sweep.points import PROTOCOL, Point

DECLARED = ("rows", "cols", "dtype", "model_reads", "model_writes", "model_bytes",
            "compulsory_bytes")  # fmt: skip


def row_of(
    point: Point, outcome: dict[str, Any], *, sweep: str, attempt: int, environment: dict[str, Any]
) -> Row:
    """A row, from what was declared of a point and what was measured.

    What no row can hold, such as a time below zero, is no answer: the worker counts as crashed.
    """
    fields = {
        "key": point.key,
        "card": point.card,
        "round": point.round,
        "attempt": attempt,
        "sweep": sweep,
        "operation": point.variant["operation"],
        "kernel": point.job.kernel,
        "params": point.variant["params"],
        "device": point.device,
        "gpu": point.gpu,
        "backend": point.variant["backend"],
        "environment": environment | provenance(point),
        "model_formula": point.variant["formula"],
        **{name: point.declared[name] for name in DECLARED},
    }
    try:
        return Row.model_validate(outcome | fields)
    except ValidationError as error:
        first = error.errors()[0]
        what = f"{'.'.join(map(str, first['loc']))!r}: {first['msg']}"
        crash = {"status": "crashed", "reason": f"the worker's answer makes no row: field {what}"}
        return Row.model_validate(crash | fields)


def provenance(point: Point) -> dict[str, Any]:
    """What repeats a row beside versions and commit: the code's hash, the protocol, the seed.

    The files beside a row follow the latest command; these stay with the row.
    """
    timing = point.job.config["timing"]
    return {
        "target": point.variant["target"],
        "source": point.variant["source"],
        "protocol": {name: timing[name] for name in PROTOCOL},
        "seed": point.job.config["seed"],
    } | packages_of(point)


def packages_of(point: Point) -> dict[str, Any]:
    """The versions of what a variant runs beside torch and Triton, nothing where there is none."""
    packages = point.variant["packages"]
    return {"packages": packages} if packages else {}


def unsupported(point: Point) -> dict[str, Any] | None:
    """The outcome of a point that its variant says it cannot run, None when it can."""
    reason = point.declared["unsupported"]
    return None if reason is None else {"status": "unsupported", "reason": reason}


def measure(point: Point, worker: Worker) -> dict[str, Any]:
    """Has a worker measure a point; whatever happens to the worker becomes an outcome.

    ``wall_s`` is the whole of it as the parent saw it, a new worker's start left out.

    Raises:
        WorkerError: no worker could be started.
    """
    worker.start()
    timing = point.job.config["timing"]
    limits = {"compiling": timing["compile_limit_s"], "sampling": timing["sampling_limit_s"]}
    request = {
        "kernel": point.job.config["kernel"],
        "timing": timing,
        "seed": point.job.config["seed"],
        **{name: point.declared[name] for name in ("rows", "cols", "dtype")},
    }
    began = time.perf_counter()
    try:
        outcome = worker.request({"do": "measure", "point": request}, limits, "sampling")
    except WorkerDied as error:
        outcome = {"status": error.status, "reason": str(error)}
    outcome["wall_s"] = time.perf_counter() - began
    if outcome.pop("sticky", False):
        worker.stop()  # its CUDA context is lost, and every later point would fail with it
    return outcome
