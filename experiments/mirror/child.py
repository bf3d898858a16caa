"""The process that W&B lives in: its environment, its messages, its end."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

WRITER = Path(__file__).with_name("writer.py")
READER = Path(__file__).with_name("reader.py")
ROOT = Path(__file__).parents[2]

# Longest silence between two messages. W&B gives up on a server after 10 s and on its own service
# after 15 s, so that this only ends what hangs beyond W&B's own limits.
SILENCE_S = 20.0

# Of the user's W&B variables, those that say where and as whom. The others (WANDB_RUN_ID,
# WANDB_MODE, WANDB_SERVICE, …) would turn the sweep's runs into other runs.
KEPT = (
    "WANDB_API_KEY",
    "WANDB_BASE_URL",
    "WANDB_ENTITY",
    "WANDB_CONFIG_DIR",
    "WANDB_IDENTITY_TOKEN_FILE",
    "WANDB_CREDENTIALS_FILE",
    "WANDB_INSECURE_DISABLE_SSL",
    "WANDB_HTTP_PROXY",
    "WANDB_HTTPS_PROXY",
    "WANDB_HTTP_TIMEOUT",
)


def environment(given: Mapping[str, str]) -> dict[str, str]:
    """The environment for a process of W&B's: the user's, without what would leak or ask."""
    kept = {key: value for key, value in given.items() if not key.startswith("WANDB_")}
    kept |= {key: given[key] for key in KEPT if key in given}
    return kept | {
        "WANDB_SILENT": "true",
        "WANDB_ERROR_REPORTING": "false",  # crash reports carry paths
        "WANDB_PROGRAM": "experiments",  # else the command line is taken
        "WANDB_DATA_DIR": "wandb/data",
        "WANDB_CACHE_DIR": "wandb/cache",
    }


def _with_root(given: Mapping[str, str]) -> dict[str, str]:
    """The environment with this checkout behind whatever is imported from elsewhere."""
    path = [given["PYTHONPATH"]] if given.get("PYTHONPATH") else []
    return {**given, "PYTHONPATH": os.pathsep.join([*path, str(ROOT)])}


def talk(
    plan: str, cwd: Path, program: Path | None = None, more_s: float = 0.0
) -> Iterator[dict[str, Any]]:
    """Runs a program of W&B's, by default the writer, on a plan and gives its messages.

    The last one is ``{"event": "end"}``, or ``{"event": "error", "reason": …}`` also when it
    died or fell silent for longer than ``SILENCE_S``, and the ``more_s`` granted on top. The
    process is gone afterwards.
    """
    with tempfile.TemporaryFile("w+") as stdin:
        stdin.write(plan)
        stdin.seek(0)
        # -P: the working folder holds a `wandb` folder of its own.
        process = subprocess.Popen(
            [sys.executable, "-P", str(program or WRITER)],
            cwd=cwd,
            env=_with_root(environment(os.environ)),
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
    try:
        for line in _lines(process, SILENCE_S + more_s):
            message: dict[str, Any] = json.loads(line)
            yield message
            if message["event"] in ("end", "error"):
                return
        yield {"event": "error", "reason": _ending(process, SILENCE_S + more_s)}
    finally:
        _stop(process)


def _lines(process: subprocess.Popen[bytes], silence_s: float) -> Iterator[bytes]:
    """Whole lines, until the process closes its output or is silent for too long."""
    assert process.stdout is not None
    pending = b""
    while select.select([process.stdout], [], [], silence_s)[0]:
        read = os.read(process.stdout.fileno(), 65536)
        if not read:
            return
        *lines, pending = (pending + read).split(b"\n")
        yield from lines


def _ending(process: subprocess.Popen[bytes], silence_s: float) -> str:
    time.sleep(0.1)  # closing its output and ending are two steps
    status = process.poll()
    if status is None:
        return f"gave no answer for {silence_s:g} s"
    return f"its process ended with status {status}"


def _stop(process: subprocess.Popen[bytes]) -> None:
    """Lets a finished process go; W&B's service follows the one that started it."""
    try:
        process.wait(timeout=2)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    if process.stdout is not None:
        process.stdout.close()
