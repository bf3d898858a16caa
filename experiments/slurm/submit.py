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
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from experiments.child import ROOT
from experiments.data.rows import Row, read_rows, rows_files
from experiments.errors import SweepFailed, UserError, on_one_line
from experiments.slurm.node import Task, measure_shard, shard_folder, state_file, submitted
from experiments.slurm.status import State, Watch, failures
from experiments.sweep.client import Worker, WorkerError
from experiments.sweep.config import check_size, complaint, shared_options
from experiments.sweep.jobs import Compose, Job, roof_overrides
from experiments.sweep.plan import PROTOCOL, described
from experiments.sweep.record import FolderLock, read_object, save_request, write_json
from experiments.sweep.summary import print_summary

SHUTDOWN_S = 15  # the warning before the time limit; every row is on disk already
# These choose where rows go and which points are visited, and not what the points are.
ELSEWHERE = ("out", "overwrite", "only_failed", "remeasure", "dry_run", "tracker", "name", "fresh")

Word = Annotated[str, Field(pattern=r"^[^\n]*[^\n\s][^\n]*$")]
Whole = Annotated[int, Field(ge=1, strict=True)]


class Options(BaseModel):
    """The values of ``conf/hydra/launcher/slurm.yaml``, which says what each is."""

    model_config = ConfigDict(extra="forbid", frozen=True, coerce_numbers_to_str=True)

    partition: Word | None = None
    account: Word | None = None
    gres: Word | None = None
    constraint: Word | None = None
    time: Whole = 60
    cpus_per_task: Whole = 1
    array_parallelism: Whole = 64
    setup: list[str] = []
    more: dict[str, Any] | None = None


def options_of(given: Mapping[str, Any]) -> Options:
    """The launcher's options, checked.

    Raises:
        UserError: one of them is of no use, by name.
    """
    try:
        return Options.model_validate(given)
    except ValidationError as error:
        raise UserError(f"hydra.launcher.{complaint(error, Options, {})}") from None


def run(jobs: Sequence[Job], compose: Compose, given: Mapping[str, Any], request: str = "") -> None:
    """Runs a sweep on Slurm to its end, or until it is left.

    Args:
        jobs: All jobs, as composed.
        compose: Makes a job of overrides, for the roof that a shard may lack.
        given: The launcher's options: what to ask of Slurm.
        request: The command's configuration, YAML, kept beside the rows.

    Raises:
        UserError: something asked for cannot be done; nothing was submitted.
        SweepFailed: a point has no row of expected status at the end.
    """
    options = options_of(given)
    shared = shared_options([job.config for job in jobs])
    check_size(sum(len(job.shapes) * len(job.dtypes) for job in jobs), shared["rounds"])
    if any(job.config["gpu"]["card"] is not None for job in jobs):
        raise UserError(
            "gpu.card= pins a card of this host; Slurm assigns the cards (hydra.launcher.gres)"
        )
    out = Path(shared["out"])
    if not (out / "slurm").exists() and rows_files(out):
        raise UserError(f"out={out} holds rows measured without Slurm; choose another")
    with contextlib.closing(FolderLock(out)):
        known = read_object(submitted(out))
        sweep = known.get("sweep", f"{out.resolve().name}-{secrets.token_hex(3)}")
        executor = _executor(out, re.sub(r"[^\w.-]", "_", sweep), options)
        tasks = divide(jobs, compose, out, sweep, options.gres is not None)
        ids = [task.id for task in tasks]
        watch = Watch(out)
        before = watch.look(ids)
        due = _due(tasks, before, known.get("shards", {}), shared)
        if shared["dry_run"]:
            for task in tasks:
                word = "to submit" if task in due else before[task.id].word
                print(f"{task.name}  {task.points} points  {word}")
            points = sum(task.points for task in due)
            print(f"{len(due)} of {len(tasks)} shards to submit, {points} points")
            return
        _describe_here([job for task in due for job in task.jobs], out / "slurm" / "check.log")
        save_request(request, out)
        _submit(executor, due, out, sweep, ids)
        states = watch.wait(ids)
    for line in failures(states.values(), out):
        print(line, file=sys.stderr)
    waited = [task for task in tasks if task in due or before[task.id].live]
    _collect(tasks, waited, out)
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

    Args:
        jobs: As Hydra composed them.
        compose: Makes a job of overrides, for the roofs.
        out: The sweep's folder.
        sweep: The sweep's name.
        on_card: Whether each shard needs a card.
    """
    groups: dict[tuple[str, str, str], list[Job]] = {}
    for job in {job.name: job for job in jobs}.values():
        groups.setdefault(job.shard, []).append(job)
    taken: set[str] = set()
    surroundings = _surroundings(jobs)
    tasks = []
    for place, members in groups.items():
        roofed = {job.neighbours for job in members if _is_roof(job)}
        for job in list(members):
            if job.neighbours not in roofed:
                roofed.add(job.neighbours)
                members.append(compose(roof_overrides(job)))
        mine = [part for job in members for part in _without(job, taken)]
        points = {point for job in mine for point in _points(job)}
        taken |= points
        if not points:
            continue
        shard = hashlib.sha256("\0".join(place).encode()).hexdigest()[:12]
        tracker = members[0].config["tracker"] | {"mode": "offline"}
        moved = {"out": str(shard_folder(out.resolve(), shard)), "tracker": tracker}
        asked = [
            [job.name, job.dtypes, job.shapes,
             {key: value for key, value in job.config.items() if key not in ELSEWHERE}]
            for job in mine
        ]  # fmt: skip
        tasks.append(
            Task(
                id=shard,
                name=" ".join(filter(None, place)),
                jobs=tuple(dataclasses.replace(j, config=j.config | moved) for j in mine),
                out=str(out.resolve()),
                sweep=sweep,
                points=len(points) * int(members[0].config["rounds"]),
                request=_digest([surroundings, asked]),
                token=secrets.token_hex(8),
                on_card=on_card,
            )
        )
    return tasks


def _is_roof(job: Job) -> bool:
    return str(job.config["kernel"].get("_target_")).startswith("kernels.copy.")


def _points(job: Job) -> list[str]:
    """What decides each of a job's measurements, as far as it is configuration."""
    config = job.config
    protocol = {name: config["timing"][name] for name in PROTOCOL}
    measured = json.dumps([job.kernel, config["kernel"], config["gpu"], config["seed"], protocol])
    return [f"{measured} {dtype} {shape}" for dtype in job.dtypes for shape in job.shapes]


def _without(job: Job, taken: set[str]) -> list[Job]:
    """A job without the points that are taken: itself, or a job for each dtype."""
    if taken.isdisjoint(_points(job)):
        return [job]
    parts = []
    for dtype in job.dtypes:
        of = dataclasses.replace(job, dtypes=(dtype,))
        left = [s for s, p in zip(job.shapes, _points(of), strict=True) if p not in taken]
        parts.append(dataclasses.replace(of, dtype=dtype, shapes=tuple(left)))
    shapes = {part.shapes for part in parts}
    if len(shapes) == 1:
        parts = [dataclasses.replace(job, shapes=shapes.pop())]
    return [part for part in parts if part.shapes]


def _surroundings(jobs: Sequence[Job]) -> str:
    """A digest of all code beside the jobs' kernels, and of what is installed here.

    Points themselves are known by keys that only a node with its card can compute. Where this
    changes without need, a job is submitted that finds nothing to measure.
    """
    folders = {str(job.config["kernel"].get("_target_")).partition(".")[0] for job in jobs}
    files = [path for top in sorted(folders) for path in sorted((ROOT / top).rglob("*.py"))]
    code = [hashlib.sha256(path.read_bytes()).hexdigest() for path in files]
    installed = sorted({f"{d.name} {d.version}" for d in importlib.metadata.distributions()})
    return _digest([code, installed])


def _digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()[:20]


def _due(
    tasks: Sequence[Task],
    before: Mapping[str, State],
    known: Mapping[str, Mapping[str, Any]],
    shared: Mapping[str, Any],
) -> list[Task]:
    """The shards to submit: those with missing points that Slurm has not got already."""
    due = []
    for task in tasks:
        state = before[task.id]
        same = known.get(task.id, {}).get("request") == task.request
        if state.live and not same:
            raise UserError(
                f"shard {task.name} is {state.word} as Slurm's job {state.job} with other options "
                f"or code; wait for it, or end it: scancel {state.job}"
            )
        if state.live:
            continue
        missing = state.failed > 0 if shared["only_failed"] else state.word != "done" or not same
        if missing or shared["overwrite"]:
            due.append(task)
    return due


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


def _executor(out: Path, name: str, options: Options) -> Any:
    """Submitit's executor, its files in ``out/slurm/log``.

    Raises:
        UserError: submitit or Slurm is not here, or an option is unknown.
    """
    try:
        import submitit
    except ImportError:
        raise UserError(
            "submitit is not installed: make slurm (for VENV=system: make wheelhouse EXTRA=slurm)"
        ) from None
    if not all(map(shutil.which, ("sbatch", "srun", "squeue"))):
        raise UserError("there is no Slurm here (sbatch, srun, squeue); submit from a login node")
    executor = submitit.SlurmExecutor(out.resolve() / "slurm" / "log", max_num_timeout=0)
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    cpus = "SLURM_CPUS_PER_TASK"  # srun takes it from sbatch by another name alone
    executor.update_parameters(
        job_name=name,
        time=options.time,
        cpus_per_task=options.cpus_per_task,
        array_parallelism=options.array_parallelism,
        # a job started again by Slurm could meet its own first run, on a node that was only lost
        # from sight; the submitting side starts it again when asked
        additional_parameters={"no-requeue": True, **(options.more or {})},
        setup=[  # the checkout, whatever the site does with the environment
            f"cd {shlex.quote(os.getcwd())}",
            f"export PYTHONPATH={shlex.quote(path)}",
            f'[ -z "${cpus}" ] || export SRUN_CPUS_PER_TASK="${cpus}"',
            *options.setup,
        ],
        wckey=None,
        signal_delay_s=SHUTDOWN_S,
        **options.model_dump(
            include={"partition", "account", "gres", "constraint"}, exclude_none=True
        ),
    )
    return executor


def _submit(
    executor: Any, due: Sequence[Task], out: Path, sweep: str, latest: Sequence[str]
) -> None:
    """Submits one array of jobs, and writes which of them has which shard.

    Raises:
        UserError: Slurm refuses, in its own words.
    """
    before = read_object(submitted(out))
    shards = dict(before.get("shards", {}))
    fields = ("name", "points", "request", "token")
    for task in due:
        shards[task.id] = {name: getattr(task, name) for name in fields}
    whole = {"sweep": sweep, "latest": list(latest), "shards": shards}
    write_json(submitted(out), whole)  # a job reads there that the shard is its own
    if not due:
        return
    stderr = io.StringIO()
    try:
        with contextlib.redirect_stderr(stderr):
            numbers = [job.job_id for job in executor.map_array(measure_shard, due)]
    except BaseException as error:  # submitit's own have no common base
        write_json(submitted(out), before)
        if not isinstance(error, Exception):
            raise
        words = on_one_line(stderr.getvalue() or str(error)).replace("sbatch: error: ", "")
        raise UserError(f"Slurm takes no job: {words}") from None
    for task, number in zip(due, numbers, strict=True):
        shards[task.id]["job"] = number
    write_json(submitted(out), whole)


def _collect(tasks: Sequence[Task], waited: Sequence[Task], out: Path) -> None:
    """Prints the table of what was asked for, once no shard is running."""
    latest: dict[tuple[str, int], list[Row]] = {}
    labels: dict[str, str] = {}
    points, spent_s = 0, 0.0
    for task in tasks:
        folder = shard_folder(out, task.id)
        state = state_file(out, task.id)
        known = read_object(state.with_name("asked.json")).get("points", ())
        asked = {tuple(point) for point in known}
        for path in rows_files(folder):
            for row in read_rows(path):
                if (row.key, row.round) in asked:
                    labels[row.key] = path.parent.name
                    latest.setdefault((row.key, row.round), []).append(row)
        if task in waited:
            ended = read_object(state)
            points, spent_s = points + ended.get("rows", 0), spent_s + ended.get("elapsed_s", 0.0)
    rows = []
    for attempts in latest.values():  # on each card that has a good one, else the last
        by_card = {row.card: row for row in sorted(attempts, key=lambda row: row.attempt)}
        good = [row for row in by_card.values() if row.expected]
        rows += good or [max(attempts, key=lambda row: row.attempt)]
    jobs = f"{len(waited)} Slurm job{'s' * (len(waited) != 1)}"
    spent = f"{points} points in {spent_s:.1f} s of {jobs}" if points else "nothing was measured"
    print_summary(rows, labels, out, spent, [])
