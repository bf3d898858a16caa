"""The submitting side of a sweep on Slurm: check, submit what is missing, wait, collect."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from experiments.data.rows import rows_files
from experiments.errors import SweepFailed, UserError
from experiments.slurm.collect import collect
from experiments.slurm.executor import executor, plain, submit
from experiments.slurm.node import Errand
from experiments.slurm.options import Options
from experiments.slurm.precheck import describe_here
from experiments.slurm.records import ASKED, SHARDS, read, slurm_folder, write
from experiments.slurm.request import requests
from experiments.slurm.shards import Shard, divide
from experiments.slurm.state import State, Watch
from experiments.slurm.watching import look, tell_failures, wait
from experiments.sweep.checks import check_size, shared_options
from experiments.sweep.folder import save_request, sweep_name, write_json
from experiments.sweep.folder_lock import FolderLock
from experiments.sweep.jobs import Job


def run(
    jobs: Sequence[Job], compose: Callable[[list[str]], Job], options: Options, request: str
) -> None:
    """Runs a sweep on Slurm to its end, or until it is left.

    Args:
        jobs: All jobs, as composed.
        compose: Makes a job of overrides, for the roof that a shard may lack.
        options: What to ask of Slurm.
        request: The command's configuration, YAML, kept beside the rows.

    Raises:
        UserError: something asked for cannot be done; nothing was submitted.
        SweepFailed: a point has no row of expected status at the end.
    """
    shared = shared_options([job.config for job in jobs])
    check_size(sum(len(job.shapes) * len(job.dtypes) for job in jobs), shared["rounds"])
    for job in jobs:
        if job.config["gpu"]["card"] is not None:
            raise UserError(
                "gpu.card= pins a card of this host; Slurm deals the cards (hydra.launcher.gres)"
            )
    out = Path(shared["out"])
    if not slurm_folder(out).exists() and rows_files(out):
        raise UserError(f"out={out} holds rows measured without Slurm; choose another")
    shards = divide(jobs, compose)
    sweep = sweep_name(out)
    made = executor(out, plain(sweep), options)
    with contextlib.closing(FolderLock(out)):
        watch = Watch(out)
        before = look(watch, shards)
        asked = requests(shards)
        due = _due(shards, before, asked, shared, out)
        if shared["dry_run"]:
            _list(shards, due, before)
            return
        save_request(request, out)
        describe_here([job for shard in due for job in shard.jobs], slurm_folder(out) / "check.log")
        needs_card = options.gres is not None
        errands = [
            Errand(
                shard, str(out.resolve()), sweep, asked[shard.id], secrets.token_hex(8), needs_card
            )
            for shard in due
        ]
        strict = shared["overwrite"] or shared["only_failed"]
        _submit(made, errands, out, strict)
        if not strict:  # shards that have all their rows are done, however the last job ended
            for shard in shards:
                write(out, shard.id, ASKED, read(out, shard.id, ASKED) | {"strict": False})
        write_json(slurm_folder(out) / SHARDS, {"shards": [shard.id for shard in shards]})
        states = wait(watch, shards)
    tell_failures(states, out)
    collect(shards, sweep, shared["tracker"], out)
    if any(state.word != "done" for state in states.values()):
        raise SweepFailed


def _due(
    shards: Sequence[Shard],
    before: dict[str, State],
    asked: dict[str, str],
    shared: dict[str, Any],
    out: Path,
) -> list[Shard]:
    """The shards to submit: those with missing points that Slurm has not got already."""
    due = []
    for shard in shards:
        state = before[shard.id]
        same = read(out, shard.id, ASKED).get("request") == asked[shard.id]
        if state.live and not same:
            raise UserError(
                f"shard {shard.name} is {state.word} as Slurm's job {state.job} with other options "
                f"or code; wait for it, or end it: scancel {state.job}"
            )
        if state.live:
            continue
        if shared["only_failed"]:
            wanted = state.bad > 0
        else:
            complete = same and state.known and state.done == state.points
            wanted = shared["overwrite"] or not complete
        if wanted:
            due.append(shard)
    return due


def _submit(made: Any, errands: Sequence[Errand], out: Path, strict: bool) -> None:
    """Submits, and writes which Slurm job has which shard; a job reads there that it is meant."""
    if not errands:
        return
    said: list[dict[str, Any]] = [
        {
            "name": errand.shard.name,
            "points": errand.shard.asked,
            "request": errand.request,
            "token": errand.token,
            "strict": strict,
        }
        for errand in errands
    ]
    known = [read(out, errand.shard.id, ASKED) for errand in errands]
    for errand, what in zip(errands, said, strict=True):
        write(out, errand.shard.id, ASKED, what)
    try:
        numbers = submit(made, errands)
    except BaseException:
        for errand, what in zip(errands, known, strict=True):
            write(out, errand.shard.id, ASKED, what)
        raise
    for errand, what, number in zip(errands, said, numbers, strict=True):
        write(out, errand.shard.id, ASKED, what | {"job": number})


def _list(shards: Sequence[Shard], due: Sequence[Shard], before: dict[str, State]) -> None:
    """A dry run: which shards would be submitted."""
    for shard in shards:
        state = before[shard.id]
        word = "to submit" if shard in due else state.word
        print(f"{shard.name}  {shard.asked} points  {word}")
    points = sum(shard.asked for shard in due)
    print(f"{len(due)} of {len(shards)} shards to submit, {points} points")
