"""How a sweep on Slurm stands: ``python -m experiments.slurm.status --out DIR`` (make status)."""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console

from experiments.slurm.node import state_file, submitted
from experiments.sweep.record import read_object

WORDS = ("queued", "running", "done", "failed")
# Slurm's words for the state of a job that it has not finished.
WAITING = {"PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT"}
RUNNING = {"RUNNING", "COMPLETING", "SUSPENDED", "STOPPED", "RESIZING", "SIGNALING", "STAGE_OUT"}
SQUEUE_LIMIT_S = 60
# A file that a node wrote may be seen here only when a cache of the shared file system gives up.
LAG_S = 20.0
# Slurm is asked rarely when nothing changes: a controller serves a whole cluster.
SOONEST_S, LATEST_S = 1.0, 10.0
PLAIN_EVERY_S = 60.0


@dataclass(frozen=True)
class State:
    """How a shard stands.

    Attributes:
        name: As people read it.
        word: One of ``WORDS``.
        job: The Slurm job's number, None where there is none.
        points: Points it has; until its job has counted them, as configuration says.
        done: Points that have a row of expected status.
        failed: Points whose last row is of no expected status.
        why: What went wrong, if it failed.
    """

    name: str
    word: str
    job: str | None
    points: int
    done: int
    failed: int
    why: str | None = None

    @property
    def live(self) -> bool:
        """Whether Slurm has it still."""
        return self.word in ("queued", "running")


def queue_states(jobs: Iterable[str]) -> dict[str, str] | None:
    """By job, Slurm's word for its state; a job that Slurm has forgotten is absent.

    By ``squeue`` alone: submitit asks ``sacct``, and accounting may be off. None where Slurm gives
    no answer, which says nothing of the jobs.
    """
    wanted = set(jobs)
    if not wanted:
        return {}
    numbers = ",".join(sorted({job.partition("_")[0] for job in wanted}, key=int))
    command = ["squeue", "--noheader", "--array", "--states=all", "--format=%i %T"]
    try:
        answer = subprocess.run(
            [*command, f"--jobs={numbers}"],
            capture_output=True, text=True, timeout=SQUEUE_LIMIT_S, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return None
    if answer.returncode and "Invalid job id" not in answer.stderr:
        return None
    lines = (line.split() for line in answer.stdout.splitlines())
    return {job: state for job, state, *_ in lines if job in wanted}


@dataclass
class Watch:
    """Looks at the shards of a sweep again and again."""

    out: Path
    _completed: dict[str, float] = field(default_factory=dict)

    def look(self, shards: Sequence[str]) -> dict[str, State]:
        """The shards' states, by id."""
        known = read_object(submitted(self.out)).get("shards", {})
        asked = {shard: known.get(shard, {"name": shard}) for shard in shards}
        now = {shard: read_object(state_file(self.out, shard)) for shard in shards}
        for shard in shards:
            if now[shard].get("token") != asked[shard].get("token"):  # an earlier job's
                now[shard].pop("status", None)
        live = {a["job"] for s, a in asked.items() if a.get("job") and "status" not in now[s]}
        answer = queue_states(live)
        return {shard: self._state(asked[shard], now[shard], answer) for shard in shards}

    def _state(
        self, asked: Mapping[str, Any], now: Mapping[str, Any], answer: Mapping[str, str] | None
    ) -> State:
        job = asked.get("job")
        points = now.get("points") or asked.get("points", 0)
        done, failed = now.get("done", 0), now.get("failed", 0)

        def state(word: str, why: str | None = None) -> State:
            return State(asked["name"], word, job, points, done, failed, why)

        if "status" not in now and job is not None:
            word = "RUNNING" if answer is None else answer.get(job)
            if word in WAITING:
                return state("queued")
            if word in RUNNING or (word == "COMPLETED" and self._is_fresh(job)):
                return state("running")
            return state("failed", f"Slurm says {word}" if word else "Slurm has forgotten its job")
        if now.get("status") == 0:
            return state("done")
        points_failed = f"{failed} of its points failed" if failed else "it never ran"
        return state("failed", str(now.get("error") or points_failed))

    def _is_fresh(self, job: str) -> bool:
        now = time.monotonic()
        return now - self._completed.setdefault(job, now) < LAG_S

    def wait(self, shards: Sequence[str]) -> dict[str, State]:
        """Shows how the shards go until none is queued or running, and gives their states.

        Raises:
            SystemExit: Ctrl-C left them; the jobs go on.
        """
        console = Console(stderr=True)
        words: list[str] = []
        printed_s, pause = 0.0, SOONEST_S
        try:
            with console.status("") as display:
                while True:
                    states = self.look(shards)
                    line = summary(list(states.values()))
                    display.update(line)
                    changed = words != (words := [state.word for state in states.values()])
                    late = time.monotonic() - printed_s > PLAIN_EVERY_S
                    if (changed or late) and not console.is_terminal:
                        print(line, file=sys.stderr, flush=True)
                        printed_s = time.monotonic()
                    pause = SOONEST_S if changed else min(1.5 * pause, LATEST_S)
                    if not any(state.live for state in states.values()):
                        return states
                    time.sleep(pause)
        except KeyboardInterrupt:
            print(
                f"detached; the jobs go on. make status OUT={self.out} shows them, "
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
            reasons.setdefault(state.why or "", []).append(state)
    lines = []
    for why, (first, *others) in reasons.items():
        many = f"shard {first.name}" + (f" and {len(others)} more" if others else "")
        log = f" (log: {out}/slurm/log/{first.job}_*)" if first.job else ""
        lines.append(f"{many}: {why}{log}")
    return lines


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints each shard, then all in a line; 0 when every one is done, 1 when not, 2 on misuse."""
    parser = argparse.ArgumentParser(
        prog="python -m experiments.slurm.status", description="How a sweep on Slurm stands."
    )
    parser.add_argument("--out", type=Path, required=True, help="the sweep's folder")
    out = parser.parse_args(arguments).out
    shards = read_object(submitted(out)).get("latest")
    if not shards:
        print(f"error: {out} holds no sweep on Slurm; name the out= of one", file=sys.stderr)
        return 2
    states = list(Watch(out).look(shards).values())
    for state in states:
        job = f"job {state.job}" if state.job else ""
        points = f"{state.done}/{state.points}"
        print(f"{state.word:8} {points:>9}  {state.name}  {job}".rstrip())
    for line in failures(states, out):
        print(line)
    print(summary(states))
    if not any(state.live for state in states):
        print("no job is left; the same command makes the table, and submits what is missing")
    return 0 if all(state.word == "done" for state in states) else 1


if __name__ == "__main__":
    sys.exit(main())
