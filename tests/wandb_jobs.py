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
from experiments.data.metrics import derive
from experiments.data.rows import Row
from experiments.sweep.record import append_row
from experiments.wandb import MirroredJob, mirror

METRIC = "float32_M4096/time_us"


def timed(cols: int, **changes: Any) -> Row:
    """A row of 4096 × ``cols`` float32 that took ``cols`` microseconds."""
    size = changes.get("rows", 4096) * cols * 4 * 2
    values: dict[str, Any] = {
        "key": f"n{cols}", "card": 0, "round": 0, "attempt": 1, "sweep": "s",
        "operation": "softmax", "kernel": "online", "params": {}, "rows": 4096, "cols": cols,
        "dtype": "float32", "status": "ok", "device": "cuda", "gpu": "a card", "backend": "triton",
        "timer": "events", "cache": "cold", "time_us": float(cols), "time_low_us": cols - 0.5,
        "time_high_us": cols + 0.5, "model_bytes": size * 3 // 2, "compulsory_bytes": size,
    }  # fmt: skip
    return Row.model_validate(values | changes)


def failure(cols: int, **changes: Any) -> Row:
    """A row of a point that crashed."""
    untimed = dict.fromkeys(("time_us", "time_low_us", "time_high_us"))
    return timed(cols, **(untimed | {"status": "crashed", "reason": "signal 11"} | changes))


def job(out: Path, rows: Sequence[Row], id: str = "s-online") -> MirroredJob:
    """A job whose rows lie on disk below ``out``."""
    folder = out / id
    (folder / "rows.jsonl").unlink(missing_ok=True)
    for row in rows:
        append_row(folder / "rows.jsonl", row)
    config = {"kernel": {"_target_": "kernels.softmax.Online"}, "out": str(out), "a.b": 1}
    (folder / "config.json").write_text("{}")
    return MirroredJob(
        id=id, name="online/tutorial/float32", sweep="a sweep", kernel="online", config=config,
        folder=folder, failed=any(not row.expected for row in rows),
    )  # fmt: skip


def mirrored(out: Path, rows: Sequence[Row], mode: str = "offline") -> list[str]:
    """Mirrors one job of these rows."""
    return mirror_all(out, {"s-online": rows}, mode)


def mirror_all(out: Path, rows: Mapping[str, Sequence[Row]], mode: str = "offline") -> list[str]:
    """Mirrors jobs by their id."""
    jobs = [job(out, found, id) for id, found in rows.items()]
    derived = {id: derive(list(found)) for id, found in rows.items()}
    return mirror(jobs, derived, TrackerConfig(mode=mode), out)


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
