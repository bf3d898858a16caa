"""Runs a sweep on a Slurm cluster: each Slurm job measures one shard, as a sweep of its own.

The command submits the shards that lack points, and ends. Run again, it shows the state of each
shard and submits those that still lack points; if none does, it prints the table. A shard's sweep
lies in ``out/shards/<id>/``. ``out/slurm/jobs.json`` has the id of each shard's latest Slurm job,
``out/slurm/log/`` has submitit's files.
"""

import contextlib
import dataclasses
import hashlib
import io
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from experiments.data.errors import SweepFailed, UserError, command, on_one_line
from experiments.data.metrics import latest
from experiments.data.rows import Row, recorded_jobs, rows_files
from experiments.parent.client import child_environment
from experiments.parent.driver import run as run_sweep
from experiments.parent.jobs import Job, options_of
from experiments.parent.record import folder_lock, read_object, sweep_name, write_json
from experiments.parent.summary import print_summary
from experiments.wandb import tracker_of, upload

SHUTDOWN_S = 15  # how long before the time limit Slurm warns; each row is on disk at once
SQUEUE_LIMIT_S = 60
PHASES = ("new", "queued", "running", "done", "failed")
# Slurm's names for the states of unfinished jobs; any other state means that the job has ended.
QUEUED = {"PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT"}
RUNNING = {"RUNNING", "COMPLETING", "SUSPENDED", "STOPPED", "RESIZING", "SIGNALING", "STAGE_OUT"}

States = Mapping[str, str] | None  # Slurm's state of a job, by job id; None if it does not answer


class State(NamedTuple):
    """The state of a shard, and the numbers of its points."""

    word: str  # one of ``PHASES``
    why: str  # if it has failed, what went wrong
    points: int
    done: int
    failed: int

    def is_due(self, options: Mapping[str, Any]) -> bool:
        """Whether to submit the shard: it has points to measure, and no job queued or running."""
        if self.word in ("queued", "running"):
            return False
        if options["only_failed"]:
            return self.failed > 0
        return bool(options["overwrite"]) or self.done + self.failed < self.points


def run(composed: Iterable[Job], **launcher: Any) -> None:
    """Shows the state of a sweep's shards, and submits those that have points to measure.

    Raises:
        UserError: the request cannot be met; nothing was submitted.
        SweepFailed: no shard is left to measure, and a point has no row of expected status.
    """
    jobs = [*composed]
    shared = options_of(jobs)
    tracker, out = tracker_of(shared), Path(shared["out"])
    dry_run, file = shared["dry_run"], out / "slurm" / "jobs.json"
    if any(job.config["gpu"]["card"] is not None for job in jobs):
        raise UserError(
            "gpu.card= pins a card of this host; Slurm assigns the cards (hydra.launcher.gres)"
        )
    if not (out / "slurm").exists() and rows_files(out):
        raise UserError(f"out={out} holds rows measured without Slurm; choose another")
    with folder_lock(out):
        executor = _executor(out, launcher)
        shards = divide(jobs, out, on_card=launcher.get("gres") is not None)
        known = read_object(file)
        queue = _queue_states(known.values())
        rows = {shard: last_rows(out / "shards" / shard, mine) for shard, mine in shards.items()}
        states = {
            shard: state_of(mine, [row for row, _ in rows[shard]], known.get(shard, ""), queue)
            for shard, mine in shards.items()
        }
        due = [shard for shard, state in states.items() if state.is_due(shared)]
        for shard, state in states.items():
            name = " ".join(shards[shard][0].shard)
            print(f"{state.word:8} {state.done:>5}/{state.points}  {name}  {state.why}")
        words = Counter(state.word for state in states.values())
        print(f"{len(shards)} shards: " + ", ".join(f"{words[word]} {word}" for word in PHASES))
        if dry_run or due:
            if due and not dry_run:
                ids = submit(executor, [shards[shard] for shard in due], sweep_name(out))
                write_json(file, known | dict(zip(due, ids, strict=True)))
            done = "to submit" if dry_run else "submitted; the same command looks again"
            print(f"{len(due)} of {len(shards)} shards {done}")
            return
    if words["queued"] or words["running"]:
        return
    every = [one for found in rows.values() for one in found]
    labels = {row.key: label for row, label in every}
    print_summary(latest(row for row, _ in every), labels, out, "nothing to submit", [])
    if (tracker.backend, tracker.mode) == ("wandb", "online"):  # the shards wrote runs offline
        print(upload(out))
    if words["failed"]:
        raise SweepFailed


def divide(jobs: Sequence[Job], out: Path, on_card: bool) -> dict[str, list[Job]]:
    """The jobs of each shard, by the shard's id, with the configuration that its node runs.

    ``on_card``: Slurm is asked for a card, so ``gpu=auto`` must not fall back to the CPU.
    """
    shards: dict[str, list[Job]] = {}
    for job in jobs:
        shard = hashlib.sha256("\0".join(job.shard).encode()).hexdigest()[:12]
        gpu, tracker = dict(job.config["gpu"]), job.config["tracker"] | {"mode": "offline"}
        if on_card and gpu["device"] == "auto":
            gpu["device"] = "cuda"
        changed = {"out": str(out.resolve() / "shards" / shard), "gpu": gpu, "tracker": tracker}
        mine = dataclasses.replace(job, config=job.config | changed)
        shards.setdefault(shard, []).append(mine)
    return shards


def measure_shard(jobs: Sequence[Job], sweep: str) -> None:
    """Measures a shard's missing points on its node, as ``sweep``; exits if that has a status."""
    # submitit's handlers would ignore scancel's signal, and ask Slurm to requeue the job
    for number in (signal.SIGTERM, signal.SIGUSR2):  # USR2 comes shortly before the time limit
        signal.signal(number, signal.default_int_handler)
    write_json(Path(jobs[0].config["out"]) / "sweep.json", {"sweep": sweep})
    if status := command(lambda: run_sweep(jobs)):
        sys.exit(status)


def _executor(out: Path, launcher: Mapping[str, Any]) -> Any:
    """Submitit's executor; raises `UserError` without submitit or Slurm, or for a wrong option."""
    try:
        import submitit
    except ImportError:
        raise UserError(
            "submitit is not installed: make slurm (for VENV=system: make wheelhouse EXTRA=slurm)"
        ) from None
    if not all(map(shutil.which, ("sbatch", "srun", "squeue"))):
        raise UserError("there is no Slurm here (sbatch, srun, squeue); submit from a login node")
    options = {key: value for key, value in launcher.items() if value is not None}
    executor = submitit.SlurmExecutor(out.resolve() / "slurm" / "log", max_num_timeout=0)
    path = child_environment(os.environ)["PYTHONPATH"]
    cpus = "SLURM_CPUS_PER_TASK"  # srun ignores it, and reads SRUN_CPUS_PER_TASK
    in_checkout = [  # shell lines, because a site may change the environment and folder of a job
        f"cd {shlex.quote(os.getcwd())}",
        f"export PYTHONPATH={shlex.quote(path)}",
        f'[ -z "${cpus}" ] || export SRUN_CPUS_PER_TASK="${cpus}"',
    ]
    # Slurm would requeue a job of a node that it lost contact with, while that node may still run
    # it; this command, run again, submits it instead
    more = {"no-requeue": True, **options.pop("more", {})}
    options |= {"additional_parameters": more, "setup": in_checkout + options.pop("setup", [])}
    name = re.sub(r"[^\w.-]", "_", out.resolve().name)
    try:
        executor.update_parameters(job_name=name, wckey=None, signal_delay_s=SHUTDOWN_S, **options)
    except (TypeError, ValueError) as error:
        raise UserError(f"hydra.launcher: {on_one_line(str(error))}") from None
    return executor


def submit(executor: Any, due: Sequence[Sequence[Job]], sweep: str) -> list[str]:
    """Submits the shards as one job array; returns the job ids, `UserError` if Slurm refuses."""
    stderr = io.StringIO()
    try:
        with contextlib.redirect_stderr(stderr):
            made = executor.map_array(measure_shard, due, [sweep] * len(due))
            return [job.job_id for job in made]
    except Exception as error:  # submitit's exceptions have no common base class
        words = on_one_line(stderr.getvalue() or str(error)).replace("sbatch: error: ", "")
        raise UserError(f"Slurm takes no job: {words}") from None


def last_rows(folder: Path, jobs: Iterable[Job]) -> list[tuple[Row, str]]:
    """Pairs (row, label) of a shard's jobs: the last row of each point, and its job's label."""
    labels = {job.name: job.label for job in jobs}
    known = [one for one in recorded_jobs(folder) if one.name in labels]
    return [(row, labels[one.name]) for one in known for row in one.last.values()]


def state_of(jobs: Sequence[Job], rows: Sequence[Row], job_id: str, queue: States) -> State:
    """A shard's state: Slurm's of its latest job (``job_id`` or ""), or else what its rows say."""
    points = sum(len(job.shapes) * len(job.dtypes) * job.config["rounds"] for job in jobs)
    done = sum(row.expected for row in rows)
    failed, missing = len(rows) - done, len(rows) < points
    state = "RUNNING" if queue is None else queue.get(job_id, "")
    word, why = "new", ""
    # the file system's cache may still hide the last rows of a completed job
    if job_id and (state in QUEUED | RUNNING or (state == "COMPLETED" and missing)):
        word = "queued" if state in QUEUED else "running"
    elif not missing:
        word = "failed" if failed else "done"
        why = f"{failed} points failed; only_failed=true tries them again" if failed else ""
    elif job_id:
        ended = f"Slurm says {state}" if state not in ("", "FAILED") else "points are missing"
        word, why = "failed", f"{ended} (log: slurm/log/{job_id}_*)"
    return State(word, why, points, done, failed)


def _queue_states(jobs: Iterable[str]) -> States:
    """Slurm's state of each of these job ids that it still knows; None if it does not answer."""
    wanted = set(jobs)
    arrays = ",".join(sorted({job.partition("_")[0] for job in wanted}))
    # not submitit's way, which asks ``sacct``: a cluster may have no accounting
    words = ["squeue", "--noheader", "--array", "--states=all", "--format=%i %T"]
    words += [f"--jobs={arrays}"] * bool(wanted)
    try:
        answer = subprocess.run(words, capture_output=True, text=True, timeout=SQUEUE_LIMIT_S)
    except (OSError, subprocess.TimeoutExpired):
        return None
    if answer.returncode and "Invalid job id" not in answer.stderr:
        return None
    lines = (line.split() for line in answer.stdout.splitlines())
    return {job: state for job, state, *_ in lines if job in wanted}
