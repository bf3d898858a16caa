"""Jobs and rows for the tests of the mirror."""

from __future__ import annotations

import getpass
import os
import platform
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from experiments.data.jobs import TrackerConfig
from experiments.data.rows import Row
from experiments.sweep.jobs import Job
from experiments.sweep.record import append_row
from experiments.wandb import mirror


def timed(cols: int, **changes: Any) -> Row:
    """A row of 4096 × ``cols`` float32 that took ``cols`` microseconds."""
    size = changes.get("rows", 4096) * cols * 4 * 2
    values: dict[str, Any] = {
        "key": f"n{cols}", "card": 0, "round": 0, "attempt": 1, "sweep": "s",
        "operation": "softmax", "kernel": "online", "params": {"block_size": 1024}, "rows": 4096,
        "cols": cols, "environment": {"torch": "2", "triton": "3", "commit": "c0ffee"},
        "dtype": "float32", "status": "ok", "device": "cuda", "gpu": "a card", "backend": "triton",
        "timer": "events", "cache": "cold", "time_us": float(cols), "time_low_us": cols - 0.5,
        "time_high_us": cols + 0.5, "model_bytes": size * 3 // 2,
        "model_formula": "3MN", "compulsory_bytes": size,
    }  # fmt: skip
    return Row.model_validate(values | changes)


def failure(cols: int, **changes: Any) -> Row:
    """A row of a point that crashed."""
    untimed = dict.fromkeys(("time_us", "time_low_us", "time_high_us"))
    return timed(cols, **(untimed | {"status": "crashed", "reason": "signal 11"} | changes))


def job(out: Path, rows: Sequence[Row], name: str = "online") -> tuple[Job, Sequence[Row]]:
    """A job whose rows lie on disk below ``out``, with the rows as a sweep has them at its end."""
    config = {"grid": {"source": "a paper"}, "out": str(out), "dry_run": False}
    made = Job(
        kernel="online", label=name, grid="tutorial", dtypes=tuple({row.dtype for row in rows}),
        dtype="native", gpu="auto", variation="", overrides=(), config=config,
        shapes=tuple(dict.fromkeys((row.rows, row.cols) for row in rows)),
    )  # fmt: skip
    folder = out / made.name
    (folder / "rows.jsonl").unlink(missing_ok=True)
    for row in rows:
        append_row(folder / "rows.jsonl", row)
    (folder / "config.json").write_text("{}")
    return made, rows


def mirrored(out: Path, rows: Sequence[Row], mode: str = "offline") -> list[str]:
    """Mirrors one job of these rows."""
    return mirror_all(out, {"online": rows}, mode)


def mirror_all(out: Path, rows: Mapping[str, Sequence[Row]], mode: str = "offline") -> list[str]:
    """Mirrors jobs by their name."""
    jobs = [job(out, found, name) for name, found in rows.items()]
    return mirror("a sweep", jobs, TrackerConfig(mode=mode), out)


@contextmanager
def no_process_left() -> Iterator[None]:
    """Fails if a process of W&B's that the test started outlives it by five seconds."""
    yield
    deadline = time.monotonic() + 5
    while _services() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert _services() == []


def secrets_of_this_machine(out: Path) -> list[str]:
    """What no file and no request may hold; short names may occur by chance and are left out."""
    names = [platform.node(), getpass.getuser(), str(out), str(Path.cwd()), sys.executable]
    return [secret for secret in {*names, *sys.argv[1:]} if len(secret) > 4]


def _services() -> list[str]:
    """W&B's processes that carry this test's name in their environment."""
    test = os.environ["PYTEST_CURRENT_TEST"].rpartition(" ")[0].encode()
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command = (process / "cmdline").read_bytes()
            if b"wandb-core" in command and test in (process / "environ").read_bytes():
                found.append(process.name)
        except OSError:
            continue  # it ended meanwhile
    return found
