"""Composing many jobs on several cores: Hydra takes some hundredths of a second for each."""

from __future__ import annotations

import multiprocessing
import os
import sys
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection

from experiments.sweep.jobs import Job

FEWEST = 8  # jobs that are worth another process

Compose = Callable[[list[str]], Job]


def compose_all(overrides: Sequence[Sequence[str]], compose: Compose) -> list[Job]:
    """Each job, in order.

    Raises:
        Exception: whatever ``compose`` raised, of the first job that it raised for.
    """
    jobs = [list(one) for one in overrides]
    count = min(_cores(), len(jobs) // FEWEST)
    if count < 2 or sys.platform != "linux":  # a fork is not safe everywhere
        return [compose(job) for job in jobs]
    context = multiprocessing.get_context("fork")  # what Hydra knows is not to be pickled
    size = -(-len(jobs) // count)
    parts = []
    for first in range(0, len(jobs), size):
        here, there = context.Pipe(duplex=False)
        part = jobs[first : first + size]
        process = context.Process(target=_part, args=(part, compose, there), daemon=True)
        process.start()
        there.close()
        parts.append((part, process, here))
    composed: list[Job] = []
    for part, process, here in parts:
        try:
            composed += here.recv()
        except EOFError:  # it met an error: the same once more, where it can be told
            composed += [compose(job) for job in part]
        process.join()
    return composed


def _part(jobs: list[list[str]], compose: Compose, told: Connection) -> None:
    try:
        told.send([compose(job) for job in jobs])
    except Exception:  # the parent meets it again
        os._exit(1)


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else 1
