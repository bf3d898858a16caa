"""How the shards of a sweep stand: queued, running, done or failed, and their points."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from experiments.slurm import queue
from experiments.slurm.records import ASKED, END, PLAN, read
from experiments.slurm.tally import Tally

WORDS = ("queued", "running", "done", "failed")
# A file that a node wrote may be seen here only when a cache of the shared file system gives up.
LAG_S = 20.0


@dataclass(frozen=True)
class State:
    """How a shard stands.

    Attributes:
        name: As people read it.
        word: One of ``WORDS``.
        job: The Slurm job's number, None where there is none.
        done: Points that have a row of expected status.
        points: Points it has, before a node has told as its configuration says.
        known: Whether a node has told.
        bad: Points whose last row is of no expected status.
        why: What went wrong, if it failed.
    """

    name: str
    word: str
    job: str | None
    done: int = 0
    points: int = 0
    known: bool = False
    bad: int = 0
    why: str | None = None

    @property
    def live(self) -> bool:
        """Whether Slurm has it still."""
        return self.word in ("queued", "running")


@dataclass
class Watch:
    """Looks at shards again and again, reading of their rows what was added."""

    out: Path
    tally: Tally = field(default_factory=Tally)
    _completed: dict[str, float] = field(default_factory=dict)

    def look(self, shards: Sequence[str], files: Iterable[Path]) -> dict[str, State]:
        """The shards' states, by id, from the rows in these files."""
        asked = {shard: read(self.out, shard, ASKED) for shard in shards}
        ended = {shard: self._ended(shard, asked[shard].get("token")) for shard in shards}
        jobs = {a["job"] for s, a in asked.items() if a.get("job") and not ended[s]}
        said = queue.states(jobs)
        self.tally.update(files)
        return {s: self._state(s, asked[s], ended[s], said) for s in shards}

    def _ended(self, shard: str, token: str | None) -> dict[str, object]:
        end = read(self.out, shard, END)
        return end if token is not None and end.get("token") == token else {}

    def _state(
        self,
        shard: str,
        asked: Mapping[str, Any],
        end: Mapping[str, object],
        said: Mapping[str, str] | None,
    ) -> State:
        plan = read(self.out, shard, PLAN)
        known = plan.get("own") if plan.get("request") == asked.get("request") else None
        done, bad = self.tally.done(known or ()), self.tally.failed(known or ())
        job = asked.get("job")
        points = asked.get("points", 0) if known is None else len(known)

        def state(word: str, why: str | None = None) -> State:
            name = asked.get("name", shard)
            return State(name, word, job, done, points, known is not None, bad, why)

        if not end and job is not None:
            now = "RUNNING" if said is None else said.get(job)
            if now in queue.WAITING:
                return state("queued")
            if now in queue.RUNNING or (now == "COMPLETED" and self._is_fresh(job)):
                return state("running")
            why = f"Slurm says {now}" if now else "Slurm has forgotten its job"
        else:
            why = str(
                end.get("error") or (f"{bad} of its points failed" if bad else "it never ran")
            )
        complete = known is not None and done == points
        good = end.get("status") == 0 if asked.get("strict") else complete
        return state("done") if good else state("failed", why)

    def _is_fresh(self, job: str) -> bool:
        now = time.monotonic()
        return now - self._completed.setdefault(job, now) < LAG_S


def summary(states: Sequence[State]) -> str:
    """All shards in a line."""
    words = Counter(state.word for state in states)
    counts = ", ".join(f"{words[word]} {word}" for word in WORDS)
    done, points = sum(state.done for state in states), sum(state.points for state in states)
    many = f"{len(states)} shard{'s' * (len(states) != 1)}"
    return f"{many}: {counts}; {done} of {points} points done"


def failures(states: Sequence[State], out: Path) -> list[str]:
    """What went wrong, one line for each different reason."""
    reasons: dict[str, list[State]] = {}
    for state in states:
        if state.word == "failed":
            reasons.setdefault(state.why or "", []).append(state)
    lines = []
    for why, which in reasons.items():
        first = which[0]
        many = f"shard {first.name}" + (f" and {len(which) - 1} more" if len(which) > 1 else "")
        log = f" (log: {out}/slurm/log/{first.job}_*)" if first.job else ""
        lines.append(f"{many}: {why}{log}")
    return lines
