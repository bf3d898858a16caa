"""How a sweep on Slurm stands: ``python -m experiments.slurm.status --out DIR`` (make status)."""

from __future__ import annotations

import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from experiments.data.rows import Row, read_rows
from experiments.errors import Parser
from experiments.slurm.node import shard_folder, state_file
from experiments.sweep.record import read_object

WORDS = ("queued", "running", "done", "failed")
# Slurm's words for the state of a job that it has not finished. Of one that is complete, the file
# that it wrote may be seen here only when a cache of the shared file system gives up.
WAITING = {"PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT"}
RUNNING = {"RUNNING", "COMPLETING", "SUSPENDED", "STOPPED", "RESIZING", "SIGNALING", "STAGE_OUT",
           "COMPLETED"}  # fmt: skip
SQUEUE_LIMIT_S = 60
POLL_S = 5.0  # a controller serves a whole cluster


@dataclass(frozen=True)
class State:
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

    @property
    def live(self) -> bool:
        """Whether Slurm has it still."""
        return self.word in ("queued", "running")


def submitted(out: Path) -> Path:
    """The sweep's name, the shards last asked for, and each shard's latest submission."""
    return out / "slurm" / "submitted.json"


def rows_of(out: Path, shard: str, jobs: Iterable[str]) -> list[tuple[Row, str]]:
    """The last row of each point of some jobs of a shard, each with its job's label."""
    last = {}
    for name in jobs:
        path = shard_folder(out, shard) / name / "rows.jsonl"
        for row in read_rows(path) if path.is_file() else ():
            last[name, row.rows, row.cols, row.dtype, row.round] = row, path.parent.name
    return list(last.values())


def look(out: Path, shards: Sequence[str]) -> dict[str, State]:
    """The shards' states, by id."""
    known = read_object(submitted(out)).get("shards", {})
    ends = {shard: read_object(state_file(out, shard)) for shard in shards}
    jobs = {shard: known[shard]["job"] for shard in shards if shard in known}
    ended = {shard for shard, job in jobs.items() if ends[shard].get("job") == job}
    answer = queue_states(job for shard, job in jobs.items() if shard not in ended)
    states = {}
    for shard in shards:
        about = known.get(shard, {"name": shard, "points": 0, "jobs": []})
        statuses = [row.expected for row, _ in rows_of(out, shard, about["jobs"])]
        done, failed = statuses.count(True), statuses.count(False)
        word, why = "failed", "it never ran"
        if shard in ended:
            word = "failed" if ends[shard]["status"] else "done"
            why = ends[shard]["error"] or f"{failed} of its points failed"
        elif shard in jobs:
            word, why = _word("RUNNING" if answer is None else answer.get(jobs[shard]))
        counts = (about["points"], done, failed)
        states[shard] = State(about["name"], word, why, jobs.get(shard), *counts)
    return states


def _word(slurm: str | None) -> tuple[str, str]:
    """Our word for Slurm's, and what went wrong if it failed."""
    if slurm in WAITING or slurm in RUNNING:
        return ("queued" if slurm in WAITING else "running"), ""
    return "failed", f"Slurm says {slurm}" if slurm else "Slurm has forgotten its job"


def queue_states(jobs: Iterable[str]) -> Mapping[str, str] | None:
    """By job, Slurm's word for its state; a job that Slurm has forgotten is absent.

    By ``squeue`` alone: submitit asks ``sacct``, and accounting may be off. None where Slurm gives
    no answer, which says nothing of the jobs.
    """
    wanted = set(jobs)
    if not wanted:
        return {}
    numbers = ",".join(sorted({job.partition("_")[0] for job in wanted}, key=int))
    command = ["squeue", "--noheader", "--array", "--states=all", "--format=%i %T"]
    command += [f"--jobs={numbers}"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=SQUEUE_LIMIT_S)
    except (OSError, subprocess.TimeoutExpired):
        return None
    if answer.returncode and "Invalid job id" not in answer.stderr:
        return None
    lines = (line.split() for line in answer.stdout.splitlines())
    return {job: state for job, state, *_ in lines if job in wanted}


def wait(out: Path, shards: Sequence[str]) -> dict[str, State]:
    """Shows how the shards go until none is queued or running, and gives their states.

    Raises:
        SystemExit: Ctrl-C left them; the jobs go on.
    """
    shown = ""
    try:
        while True:
            states = look(out, shards)
            if shown != (shown := summary(list(states.values()))):
                print(shown, file=sys.stderr, flush=True)
            if not any(state.live for state in states.values()):
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
    """What went wrong, one line for each different reason."""
    reasons: dict[str, list[State]] = {}
    for state in states:
        if state.word == "failed":
            reasons.setdefault(state.why, []).append(state)
    lines = []
    for why, (first, *others) in reasons.items():
        more = f" and {len(others)} more" if others else ""
        lines.append(f"shard {first.name}{more}: {why} (log: {out}/slurm/log/{first.job}_*)")
    return lines


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints each shard, then all in a line; 0 when every one is done, 1 when not, 2 on misuse."""
    parser = Parser(prog="python -m experiments.slurm.status", description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="the sweep's folder")
    out = parser.parse_args(arguments).out
    known = read_object(submitted(out))
    if not known:
        parser.error(f"{out} holds no sweep on Slurm; name the out= of one")
    states = list(look(out, known["latest"]).values())
    for state in states:
        points = f"{state.done}/{state.points}"
        print(f"{state.word:8} {points:>9}  {state.name}  job {state.job}")
    print("\n".join([*failures(states, out), summary(states)]))
    return 0 if all(state.word == "done" for state in states) else 1


if __name__ == "__main__":
    sys.exit(main())
