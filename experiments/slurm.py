"""Sweeps on a Slurm cluster: a Slurm job measures one shard, as an ordinary sweep of its own.

A shard's sweep lies in ``out/shards/<id>/``, and its rows say how far it is. The submitting side
writes ``out/slurm/submitted.json``, the latest job of each shard, and submitit's files in
``out/slurm/log/``. ``python -m experiments.slurm --out DIR`` (make status) shows how it stands.
"""

from __future__ import annotations

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
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

from experiments.child import ROOT
from experiments.data.jobs import TrackerConfig
from experiments.data.metrics import plausible
from experiments.data.rows import Row, read_rows, rows_files
from experiments.errors import Parser, SweepFailed, UserError, on_one_line
from experiments.sweep.client import Worker, WorkerError
from experiments.sweep.driver import run as run_sweep
from experiments.sweep.jobs import Job, options_of
from experiments.sweep.plan import described
from experiments.sweep.record import FolderLock, read_object, sweep_name, write_json
from experiments.sweep.summary import print_summary
from experiments.wandb import check_tracker

SHUTDOWN_S = 15  # the warning before the time limit; every row is on disk already
SQUEUE_LIMIT_S = 60
POLL_S = 5.0  # a controller serves a whole cluster
WORDS = ("queued", "running", "done", "failed")
# Slurm's words for a job that it has not finished; any other is of one that has ended.
QUEUED = {"PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT"}
RUNNING = {"RUNNING", "COMPLETING", "SUSPENDED", "STOPPED", "RESIZING", "SIGNALING", "STAGE_OUT"}


class State(NamedTuple):
    """How a shard stands: one of ``WORDS``, and what went wrong if it failed.

    Of its points, those whose last row has an expected status are done, the others failed.
    """

    name: str
    word: str
    why: str
    job: str | None
    points: int
    done: int
    failed: int


def run(composed: Iterable[Job], **given: Any) -> None:
    """Runs a sweep on Slurm to its end, or until it is left.

    Raises:
        UserError: something asked for cannot be done; nothing was submitted.
        SweepFailed: a point has no row of expected status at the end.
    """
    jobs = [*composed]
    shared = options_of(jobs)
    tracker = TrackerConfig(**shared["tracker"])
    check_tracker(tracker)
    if any(job.config["gpu"]["card"] is not None for job in jobs):
        raise UserError(
            "gpu.card= pins a card of this host; Slurm assigns the cards (hydra.launcher.gres)"
        )
    out = Path(shared["out"])
    if not (out / "slurm").exists() and rows_files(out):
        raise UserError(f"out={out} holds rows measured without Slurm; choose another")
    with contextlib.closing(FolderLock(out)):
        executor = _executor(out, given)
        shards = divide(jobs, out, on_card=given.get("gres") is not None)
        known = {**read_object(submitted(out))}
        for shard, mine in shards.items():
            points = sum(len(j.shapes) * len(j.dtypes) - len(j.skipped) for j in mine)
            asked = {"points": points * shared["rounds"], "jobs": [job.name for job in mine]}
            asked["name"] = " ".join(filter(None, mine[0].shard))
            known[shard] = {"job": known.get(shard, {}).get("job")} | asked
        known = {shard: known[shard] for shard in shards}
        before = look(out, known)
        due = [shard for shard, state in before.items() if is_due(state, shared)]
        if shared["dry_run"]:
            for shard, state in before.items():
                word = "to submit" if shard in due else state.word
                print(f"{state.name}  {state.points} points  {word}")
            print(f"{len(due)} of {len(shards)} shards to submit")
            return
        describe_here([job for shard in due for job in shards[shard]], out / "slurm" / "check.log")
        sweep = sweep_name(out)
        numbers = submit(executor, [shards[shard] for shard in due], sweep)
        for shard, number in zip(due, numbers, strict=True):
            known[shard]["job"] = number
        write_json(submitted(out), known)
        states = wait(out, known).values()
    print("".join(f"{line}\n" for line in failures(states, out)), end="", file=sys.stderr)
    rows = [one for shard, about in known.items() for one in rows_of(out, shard, about["jobs"])]
    spent = f"{len(due)} Slurm jobs" if due else "nothing was submitted"
    labels = {row.key: label for row, label in rows}
    print_summary(plausible([row for row, _ in rows]), labels, out, spent, [])
    if (tracker.backend, tracker.mode) == ("wandb", "online"):  # nodes wrote offline
        subprocess.run([sys.executable, "-m", "experiments.wandb", "--out", str(out)], check=False)
    if any(state.word != "done" for state in states):
        raise SweepFailed


def divide(jobs: Sequence[Job], out: Path, on_card: bool) -> dict[str, list[Job]]:
    """By the name of its folder the jobs of each shard, as its node runs them.

    A point that several shards ask for is measured by the first of them alone. ``on_card`` says
    that Slurm is asked for a card, so that a CPU cannot stand in.
    """
    shards: dict[str, list[Job]] = {}
    taken: dict[Any, str] = {}
    for job in jobs:
        shard = hashlib.sha256("\0".join(job.shard).encode()).hexdigest()[:12]
        what = [job.config[name] for name in ("kernel", "gpu", "seed", "timing")]
        places = [(dtype, m, n) for dtype in job.dtypes for m, n in job.shapes]
        skipped = {
            p for p in places if taken.setdefault((job.kernel, str(what), p), shard) != shard
        }
        if len(skipped) == len(places):
            continue
        gpu, tracker = dict(job.config["gpu"]), job.config["tracker"] | {"mode": "offline"}
        if on_card and gpu["device"] == "auto":
            gpu["device"] = "cuda"
        changed = {"out": str(out.resolve() / "shards" / shard), "gpu": gpu, "tracker": tracker}
        mine = dataclasses.replace(job, config=job.config | changed, skipped=frozenset(skipped))
        shards.setdefault(shard, []).append(mine)
    return shards


def is_due(state: State, shared: Mapping[str, Any]) -> bool:
    """Whether a shard is to be submitted: it has missing points, and Slurm has not got it."""
    if state.word in ("queued", "running") or shared["overwrite"]:
        return state.word not in ("queued", "running")
    return state.failed > 0 if shared["only_failed"] else state.word != "done"


def describe_here(jobs: Sequence[Job], log: Path) -> None:
    """Has each different kernel described by a worker on the CPU, before anything is queued.

    A login node without torch, or with no room for it, checks nothing: the shards' jobs will.

    Raises:
        UserError: a kernel cannot be built as configured.
    """
    different = {str(job.config["kernel"]): job for job in jobs}
    worker = Worker("cpu", 0, log)
    with contextlib.suppress(WorkerError):
        worker.start()
        try:
            for job in different.values():
                kernel = job.config["kernel"]
                described(kernel, [(1, 1)], ["float32"], job.kernel, worker.of_kernel(kernel))
        finally:
            worker.stop()


def measure_shard(jobs: Sequence[Job], sweep: str) -> None:
    """Measures the missing points of a shard on its node; exits with its sweep's status."""
    # submitit would measure on after scancel, until it is killed, and ask to be started again
    signal.signal(signal.SIGTERM, _leave)
    signal.signal(signal.SIGUSR2, _leave)
    write_json(Path(jobs[0].config["out"]) / "sweep.json", {"sweep": sweep})
    try:
        run_sweep(jobs)
    except SweepFailed:
        sys.exit(1)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(1)


def _leave(number: int, frame: FrameType | None) -> None:
    if number == signal.SIGUSR2:
        raise UserError(
            "its time was up (hydra.launcher.time), or others went first; the same command goes on"
        )
    raise SystemExit(128 + number)


def _executor(out: Path, given: Mapping[str, Any]) -> Any:
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
    executor = submitit.SlurmExecutor(out.resolve() / "slurm" / "log", max_num_timeout=0)
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    cpus = "SLURM_CPUS_PER_TASK"  # srun takes it from sbatch by another name alone
    try:
        executor.update_parameters(
            job_name=re.sub(r"[^\w.-]", "_", out.resolve().name),
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
    except (TypeError, ValueError) as error:
        raise UserError(f"hydra.launcher: {on_one_line(str(error))}") from None
    return executor


def submit(executor: Any, due: Sequence[Sequence[Job]], sweep: str) -> list[str]:
    """Submits one array of jobs, and gives their numbers.

    Raises:
        UserError: Slurm refuses, in its own words.
    """
    stderr = io.StringIO()
    try:
        with contextlib.redirect_stderr(stderr):
            made = executor.map_array(measure_shard, due, [sweep] * len(due)) if due else []
            return [job.job_id for job in made]
    except Exception as error:  # submitit's own have no common base
        words = on_one_line(stderr.getvalue() or str(error)).replace("sbatch: error: ", "")
        raise UserError(f"Slurm takes no job: {words}") from None


def submitted(out: Path) -> Path:
    """By shard of the latest command its name, its points, its jobs and its Slurm job."""
    return out / "slurm" / "submitted.json"


def rows_of(out: Path, shard: str, jobs: Iterable[str]) -> list[tuple[Row, str]]:
    """The last row of each point of some jobs of a shard, each with its job's label."""
    last = {}
    for name in jobs:
        path = out / "shards" / shard / name / "rows.jsonl"
        for row in read_rows(path) if path.is_file() else ():
            last[name, row.rows, row.cols, row.dtype, row.round] = row, path.parent.name
    return list(last.values())


def look(out: Path, known: Mapping[str, Mapping[str, Any]]) -> dict[str, State]:
    """The shards' states: what Slurm says of their jobs, or else what their rows say."""
    slurm = queue_states(about["job"] for about in known.values() if about["job"])
    states = {}
    for shard, about in known.items():
        job = about["job"]
        statuses = [row.expected for row, _ in rows_of(out, shard, about["jobs"])]
        done, failed = statuses.count(True), statuses.count(False)
        said = "RUNNING" if slurm is None else slurm.get(job or "", "")
        word, why = "failed", "it never ran"
        # of a job that is complete a cache of the file system may still hide the last rows
        if job and (said in QUEUED | RUNNING or (said == "COMPLETED" and done < about["points"])):
            word, why = ("queued" if said in QUEUED else "running"), ""
        elif done >= about["points"]:
            word, why = "done", ""
        elif job:
            ended = f"Slurm says {said}" if said not in ("", "FAILED") else ""
            why = ended or _error_of(out, job) or f"{about['points'] - done} points have no row"
        states[shard] = State(about["name"], word, why, job, about["points"], done, failed)
    return states


def _error_of(out: Path, job: str) -> str:
    """The last error that a job printed."""
    logs = (out / "slurm" / "log").glob(f"{job}_*.err")
    lines = [line for log in logs for line in log.read_text(errors="replace").splitlines()]
    found = [line.partition("error: ")[2] for line in lines if line.startswith("error: ")]
    return found[-1] if found else ""


def queue_states(jobs: Iterable[str]) -> dict[str, str] | None:
    """By job, Slurm's word for its state; a job that Slurm has forgotten is absent.

    By ``squeue`` alone: submitit asks ``sacct``, and accounting may be off. None where Slurm gives
    no answer, which says nothing of the jobs.
    """
    wanted = set(jobs)
    if not wanted:
        return {}
    numbers = ",".join(sorted({job.partition("_")[0] for job in wanted}, key=int))
    words = ["squeue", "--noheader", "--array", "--states=all", "--format=%i %T"]
    try:
        answer = subprocess.run(
            [*words, f"--jobs={numbers}"], capture_output=True, text=True, timeout=SQUEUE_LIMIT_S
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    if answer.returncode and "Invalid job id" not in answer.stderr:
        return None
    lines = (line.split() for line in answer.stdout.splitlines())
    return {job: state for job, state, *_ in lines if job in wanted}


def wait(out: Path, known: Mapping[str, Mapping[str, Any]]) -> dict[str, State]:
    """Shows how the shards go until none is queued or running, and gives their states.

    Raises:
        SystemExit: Ctrl-C left them; the jobs go on.
    """
    shown = ""
    try:
        while True:
            states = look(out, known)
            if shown != (shown := summary([*states.values()])):
                print(shown, file=sys.stderr, flush=True)
            if not {state.word for state in states.values()} & {"queued", "running"}:
                return states
            time.sleep(POLL_S)
    except KeyboardInterrupt:
        print(
            f"detached; the jobs go on. make status OUT={out} shows them, "
            "the same command comes back, scancel ends them",
            file=sys.stderr,
        )
        raise SystemExit(130) from None


def summary(states: Sequence[State]) -> str:
    """All shards in a line."""
    words = Counter(state.word for state in states)
    counts = ", ".join(f"{words[word]} {word}" for word in WORDS)
    done, points = sum(state.done for state in states), sum(state.points for state in states)
    many = f"{len(states)} shard{'s' * (len(states) != 1)}"
    return f"{many}: {counts}; {done} of {points} points done"


def failures(states: Iterable[State], out: Path) -> list[str]:
    """What went wrong, one line for each shard."""
    return [
        f"shard {state.name}: {state.why} (log: {out}/slurm/log/{state.job}_*)"
        for state in states
        if state.word == "failed"
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints each shard, then all in a line; 0 when every one is done, 1 when not, 2 on misuse."""
    parser = Parser(prog="python -m experiments.slurm", description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="the sweep's folder")
    out = parser.parse_args(arguments).out
    known = read_object(submitted(out))
    if not known:
        parser.error(f"{out} holds no sweep on Slurm; name the out= of one")
    states = [*look(out, known).values()]
    for state in states:
        points = f"{state.done}/{state.points}"
        print(f"{state.word:8} {points:>9}  {state.name}  job {state.job}")
    print("\n".join([*failures(states, out), summary(states)]))
    return 0 if all(state.word == "done" for state in states) else 1


if __name__ == "__main__":
    sys.exit(main())
