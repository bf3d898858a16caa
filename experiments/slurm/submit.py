"""The submitting side of a sweep on Slurm: check, submit missing shards, wait, summarize."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import importlib.metadata
import io
import json
import os
import re
import secrets
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from experiments.child import ROOT
from experiments.data.jobs import TrackerConfig
from experiments.data.metrics import plausible
from experiments.data.rows import rows_files
from experiments.errors import SweepFailed, UserError, on_one_line
from experiments.slurm.node import Task, measure_shard, shard_folder
from experiments.slurm.status import State, failures, look, rows_of, submitted, wait
from experiments.sweep.client import Worker, WorkerError
from experiments.sweep.config import SHARED
from experiments.sweep.jobs import Job, options_of
from experiments.sweep.plan import PROTOCOL, described
from experiments.sweep.record import FolderLock, read_object, write_json
from experiments.sweep.summary import print_summary
from experiments.wandb import check_tracker

SHUTDOWN_S = 15  # the warning before the time limit; every row is on disk already
# The shared options that decide the points; the others decide where rows go and how.
DECIDING = {"rounds", "seed", "determinism"}


def run(composed: Iterable[Job], **given: Any) -> None:
    """Runs a sweep on Slurm to its end, or until it is left.

    Raises:
        UserError: something asked for cannot be done; nothing was submitted.
        SweepFailed: a point has no row of expected status at the end.
    """
    jobs = [*composed]
    shared = options_of(jobs)
    check_tracker(TrackerConfig(**shared["tracker"]))
    if any(job.config["gpu"]["card"] is not None for job in jobs):
        raise UserError(
            "gpu.card= pins a card of this host; Slurm assigns the cards (hydra.launcher.gres)"
        )
    out = Path(shared["out"])
    if not (out / "slurm").exists() and rows_files(out):
        raise UserError(f"out={out} holds rows measured without Slurm; choose another")
    with contextlib.closing(FolderLock(out)):
        known = {"shards": {}} | read_object(submitted(out))
        known.setdefault("sweep", f"{out.resolve().name}-{secrets.token_hex(3)}")
        executor = _executor(out, re.sub(r"[^\w.-]", "_", known["sweep"]), given)
        tasks = divide(jobs, out, known["sweep"], on_card=given.get("gres") is not None)
        before = look(out, [task.id for task in tasks])
        due = [task for task in tasks if _is_due(task, before[task.id], known["shards"], shared)]
        if shared["dry_run"]:
            for task in tasks:
                word = "to submit" if task in due else before[task.id].word
                print(f"{task.name}  {task.points} points  {word}")
            print(f"{len(due)} of {len(tasks)} shards to submit")
            return
        _describe_here([job for task in due for job in task.jobs], out / "slurm" / "check.log")
        known["latest"] = list(before)
        for task, number in zip(due, _submit(executor, due), strict=True):
            asked = {name: getattr(task, name) for name in ("name", "points", "request")}
            known["shards"][task.id] = asked | {"job": number, "jobs": [j.name for j in task.jobs]}
        write_json(submitted(out), known)
        states = wait(out, known["latest"])
    for line in failures(states.values(), out):
        print(line, file=sys.stderr)
    rows = [one for t in tasks for one in rows_of(out, t.id, [job.name for job in t.jobs])]
    spent = f"{len(due)} Slurm jobs" if due else "nothing was submitted"
    labels = {row.key: label for row, label in rows}
    print_summary(plausible([row for row, _ in rows]), labels, out, spent, [])
    tracker = shared["tracker"]
    if tracker["backend"] == "wandb" and tracker["mode"] == "online":  # nodes wrote offline
        subprocess.run([sys.executable, "-m", "experiments.wandb", "--out", str(out)], check=False)
    if any(state.word != "done" for state in states.values()):
        raise SweepFailed


def divide(jobs: Sequence[Job], out: Path, sweep: str, on_card: bool) -> list[Task]:
    """The tasks of a sweep, one for each shard, in the order of their first jobs.

    A point that several shards ask for is measured by the first of them alone. ``on_card`` says
    that Slurm is asked for a card, so that a CPU cannot stand in.
    """
    shards: dict[tuple[str, ...], list[Job]] = {}
    for job in jobs:
        shards.setdefault(job.shard, []).append(job)
    taken: set[str] = set()
    code, tasks = _code(), []
    for place, members in shards.items():
        shard = hashlib.sha256("\0".join(place).encode()).hexdigest()[:12]
        folder = str(shard_folder(out.resolve(), shard))
        points, mine, asked = set[str](), list[Job](), list[Any]()
        for job in members:
            named = _points(job)
            skipped = frozenset(point for point, name in named.items() if name in taken)
            points |= set(named.values()) - taken
            if len(skipped) == len(named):
                continue
            how = {*SHARED, "name"} - DECIDING
            config = {key: value for key, value in job.config.items() if key not in how}
            asked.append([job.name, config, sorted(skipped)])
            gpu, tracker = dict(job.config["gpu"]), job.config["tracker"] | {"mode": "offline"}
            if on_card and gpu["device"] == "auto":
                gpu["device"] = "cuda"
            changed = {"out": folder, "gpu": gpu, "tracker": tracker}
            mine.append(dataclasses.replace(job, config=job.config | changed, skipped=skipped))
        taken |= points
        if points:
            name, count = " ".join(filter(None, place)), len(points) * members[0].config["rounds"]
            request = _digest([code, asked])
            task = Task(shard, name, tuple(mine), str(out.resolve()), sweep, count, request)
            tasks.append(task)
    return tasks


def _points(job: Job) -> dict[tuple[str, int, int], str]:
    """By dtype, M and N what decides each measurement, as far as it is configuration."""
    config = job.config
    protocol = {name: config["timing"][name] for name in PROTOCOL}
    measured = json.dumps([job.kernel, config["kernel"], config["gpu"], config["seed"], protocol])
    places = [(dtype, m, n) for dtype in job.dtypes for m, n in job.shapes]
    return {place: f"{measured} {place}" for place in places}


def _code() -> str:
    """A digest of the kernels and of the installed distributions.

    Points themselves are known by keys that only a node with its card can compute. Where this
    changes without need, a job is submitted that finds nothing to measure.
    """
    kernels = [path.read_text() for path in sorted((ROOT / "kernels").rglob("*.py"))]
    installed = sorted({f"{d.name} {d.version}" for d in importlib.metadata.distributions()})
    return _digest([kernels, installed])


def _digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()[:20]


def _is_due(
    task: Task, state: State, known: Mapping[str, Mapping[str, Any]], shared: Mapping[str, Any]
) -> bool:
    """Whether a shard is to be submitted: it has missing points, and Slurm has not got it.

    Raises:
        UserError: Slurm has it with another request.
    """
    same = known.get(task.id, {}).get("request") == task.request
    if state.live and not same:
        raise UserError(
            f"shard {task.name} is {state.word} as Slurm's job {state.job} with other options "
            f"or code; wait for it, or end it: scancel {state.job}"
        )
    if state.live or shared["overwrite"]:
        return not state.live
    return state.failed > 0 if shared["only_failed"] else state.word != "done" or not same


def _describe_here(jobs: Sequence[Job], log: Path) -> None:
    """Has each different kernel described by a worker on the CPU, before anything is queued.

    A login node without torch, or with no room for it, checks nothing: the shards' jobs will.

    Raises:
        UserError: a kernel cannot be built as configured.
    """
    different = {json.dumps(job.config["kernel"], sort_keys=True): job for job in jobs}
    worker = Worker("cpu", 0, log)
    try:
        worker.start()
    except WorkerError:
        return
    try:
        for job in different.values():
            kernel = job.config["kernel"]
            described(kernel, [(1, 1)], ["float32"], job.kernel, worker.of_kernel(kernel))
    finally:
        worker.stop()


def _executor(out: Path, name: str, given: Mapping[str, Any]) -> Any:
    """Submitit's executor, its files in ``out/slurm/log``.

    Raises:
        UserError: submitit or Slurm is not here, or there is no such option.
    """
    try:
        import submitit
    except ImportError:
        raise UserError(
            "submitit is not installed: make slurm (for VENV=system: make wheelhouse EXTRA=slurm)"
        ) from None
    if not all(map(shutil.which, ("sbatch", "srun", "squeue"))):
        raise UserError("there is no Slurm here (sbatch, srun, squeue); submit from a login node")
    options = {key: value for key, value in given.items() if value is not None}
    lines, more = options.pop("setup", []), options.pop("more", {})
    if not isinstance(lines, list) or not isinstance(more, dict):
        raise UserError("hydra.launcher.setup is a list of shell lines, more a mapping of options")
    executor = submitit.SlurmExecutor(out.resolve() / "slurm" / "log", max_num_timeout=0)
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    cpus = "SLURM_CPUS_PER_TASK"  # srun takes it from sbatch by another name alone
    try:
        executor.update_parameters(
            job_name=name,
            # a job started again by Slurm could meet its own first run, on a node that was only
            # lost from sight; the submitting side starts it again when asked
            additional_parameters={"no-requeue": True, **more},
            setup=[  # the checkout, whatever the site does with the environment
                f"cd {shlex.quote(os.getcwd())}",
                f"export PYTHONPATH={shlex.quote(path)}",
                f'[ -z "${cpus}" ] || export SRUN_CPUS_PER_TASK="${cpus}"',
                *lines,
            ],
            wckey=None,
            signal_delay_s=SHUTDOWN_S,
            **options,
        )
    except ValueError as error:
        raise UserError(f"hydra.launcher: {on_one_line(str(error))}") from None
    return executor


def _submit(executor: Any, due: Sequence[Task]) -> list[str]:
    """Submits one array of jobs, and gives their numbers.

    Raises:
        UserError: Slurm refuses, in its own words.
    """
    stderr = io.StringIO()
    try:
        with contextlib.redirect_stderr(stderr):
            return [job.job_id for job in executor.map_array(measure_shard, due)] if due else []
    except Exception as error:  # submitit's own have no common base
        words = on_one_line(stderr.getvalue() or str(error)).replace("sbatch: error: ", "")
        raise UserError(f"Slurm takes no job: {words}") from None
