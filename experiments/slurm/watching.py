"""The submitting side waits for its shards, and can leave them."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.console import Console

from experiments.slurm.shards import Shard
from experiments.slurm.state import State, Watch, failures, summary

# Slurm is asked rarely when nothing changes: a controller serves a whole cluster.
SOONEST_S, LATEST_S = 1.0, 10.0
PLAIN_EVERY_S = 60.0


def wait(watch: Watch, shards: Sequence[Shard]) -> dict[str, State]:
    """Tells how the shards go until none is queued or running, and gives their states.

    Raises:
        SystemExit: Ctrl-C left them; the jobs go on.
    """
    console = Console(stderr=True)
    words: list[str] = []
    told_s, pause = 0.0, SOONEST_S
    try:
        with console.status("") as live:
            while True:
                states = look(watch, shards)
                line = summary(list(states.values()))
                live.update(line)
                changed = words != (words := [state.word for state in states.values()])
                late = time.monotonic() - told_s > PLAIN_EVERY_S
                if (changed or late) and not console.is_terminal:
                    print(line, file=sys.stderr, flush=True)
                    told_s = time.monotonic()
                pause = SOONEST_S if changed else min(1.5 * pause, LATEST_S)
                if not any(state.live for state in states.values()):
                    return states
                time.sleep(pause)
    except KeyboardInterrupt:
        print(
            f"detached; the jobs go on. make status OUT={watch.out} shows them, "
            "the same command comes back, scancel ends them",
            file=sys.stderr,
        )
        raise SystemExit(130) from None


def look(watch: Watch, shards: Sequence[Shard]) -> dict[str, State]:
    """The shards' states now."""
    files = [path for shard in shards for path in shard.rows_files(watch.out)]
    return watch.look([shard.id for shard in shards], files)


def tell_failures(states: Mapping[str, State], out: Path) -> None:
    """Says on stderr what went wrong."""
    for line in failures(list(states.values()), out):
        print(line, file=sys.stderr)
