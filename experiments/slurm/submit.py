"""The submitting side of a sweep on Slurm: check, submit what is missing, wait, summarize."""

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
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from experiments.child import ROOT
from experiments.data.files import write_file
from experiments.data.metrics import latest
from experiments.data.rows import rows_files
from experiments.errors import SweepFailed, UserError, on_one_line
from experiments.slurm.node import Task, measure_shard, shard_folder
from experiments.slurm.status import State, failures, look, rows_of, submitted, wait
from experiments.sweep.client import Worker, WorkerError
from experiments.sweep.config import shared_options
from experiments.sweep.jobs import Compose, Job, check_size, with_roofs
from experiments.sweep.plan import PROTOCOL, described
from experiments.sweep.record import FolderLock, read_object, write_json
from experiments.sweep.summary import print_summary

SHUTDOWN_S = 15  # the warning before the time limit; every row is on disk already
# These choose where rows go and which points are visited, and not what the points are.
ELSEWHERE = ("out", "overwrite", "only_failed", "remeasure", "dry_run", "tracker", "name", "fresh")


def run(jobs: Sequence[Job], compose: Compose, given: Mapping[str, Any], request: str = "") -> None:
    """Runs a sweep on Slurm to its end, or until it is left.

    Raises:
        UserError: something asked for cannot be done; nothing was submitted.
        SweepFailed: a point has no row of expected status at the end.
    """
    shared = shared_options([job.config for job in jobs])
    check_size(jobs)
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
        tasks = divide(jobs, compose, out, known["sweep"], given.get("gres") is not None)
        before = look(out, [task.id for task in tasks])
        due = [task for task in tasks if _is_due(task, before[task.id], known["shards"], shared)]
        if shared["dry_run"]:
            for task in tasks:
                word = "to submit" if task in due else before[task.id].word
                print(f"{task.name}  {task.points} points  {word}")
            print(f"{len(due)} of {len(tasks)} shards to submit")
            return
        _describe_here([job for task in due for job in task.jobs], out / "slurm" / "check.log")
        write_file(out / ".hydra" / "multirun.yaml", request)
        known["latest"] = list(before)
        numbers = _submit(executor, due)
        for task, number in zip(due, numbers, strict=True):
            asked = {name: getattr(task, name) for name in ("name", "points", "request")}
            known["shards"][task.id] = asked | {"job": number}
        write_json(submitted(out), known)
        states = wait(out, known["latest"])
    for line in failures(states.values(), out):
        print(line, file=sys.stderr)
    found = [(row, label) for task in tasks for row, label in rows_of(out, task.id)]
    rows = latest(row for row, _ in found)
    done = {(row.key, row.round) for row in rows if row.expected}
    rows = [row for row in rows if row.expected or (row.key, row.round) not in done]
    spent = f"{len(due)} Slurm jobs" if due else "nothing was submitted"
    print_summary(rows, {row.key: label for row, label in found}, out, spent, [])
    tracker = shared["tracker"]
    if tracker["backend"] == "wandb" and tracker["mode"] == "online":  # nodes wrote offline
        subprocess.run([sys.executable, "-m", "experiments.wandb", "--out", str(out)], check=False)
    if any(state.word != "done" for state in states.values()):
        raise SweepFailed


def divide(
    jobs: Sequence[Job], compose: Compose, out: Path, sweep: str, on_card: bool
) -> list[Task]:
    """The tasks of a sweep, one for each shard, in the order of their first jobs.

    A point that several shards ask for is measured by the first of them alone.
    """
    shards: dict[tuple[str, ...], list[Job]] = {}
    for job in with_roofs(jobs, compose):
        shards.setdefault(job.shard, []).append(job)
    taken: set[str] = set()
    code = _code()
    tasks = []
    for place, members in shards.items():
        points, mine, asked = set[str](), list[Job](), list[Any]()
        for job in members:
            named = _points(job)
            skipped = frozenset(point for point, name in named.items() if name in taken)
            points |= set(named.values()) - taken
            if len(skipped) == len(named):
                continue
            config = {key: job.config[key] for key in job.config if key not in ELSEWHERE}
            asked.append([job.name, config, sorted(skipped)])
            tracker = job.config["tracker"] | {"mode": "offline"}
            mine.append(dataclasses.replace(job, config=job.config | {"tracker": tracker},
                                            skipped=skipped))  # fmt: skip
        if not points:
            continue
        taken |= points
        shard = hashlib.sha256("\0".join(place).encode()).hexdigest()[:12]
        folder = str(shard_folder(out.resolve(), shard))
        tasks.append(
            Task(
                id=shard,
                name=" ".join(filter(None, place)),
                jobs=tuple(dataclasses.replace(j, config=j.config | {"out": folder}) for j in mine),
                out=str(out.resolve()),
                sweep=sweep,
                points=len(points) * int(members[0].config["rounds"]),
                request=_digest([code, asked]),
                on_card=on_card,
            )
        )
    return tasks


def _points(job: Job) -> dict[tuple[str, int, int], str]:
    """By dtype, M and N what decides each measurement, as far as it is configuration."""
    config = job.config
    protocol = {name: config["timing"][name] for name in PROTOCOL}
    measured = json.dumps([job.kernel, config["kernel"], config["gpu"], config["seed"], protocol])
    places = [(dtype, m, n) for dtype in job.dtypes for m, n in job.shapes]
    return {place: f"{measured} {place}" for place in places}


def _code() -> str:
    """A digest of the kernels and of what is installed here.

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
    """Whether a shard is to be submitted: it has missing points, and Slurm has not got it."""
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
    worker = Worker("cpu", 0, log)
    different = {json.dumps(job.config["kernel"], sort_keys=True): job for job in jobs}
    try:
        for job in different.values():
            described(job.config["kernel"], [(1, 1)], ["float32"], job.kernel, worker)
    except WorkerError:
        return
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
