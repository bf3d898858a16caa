"""A worker's process: the environment it starts in, its lines, and how it ended."""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
from pathlib import Path
from typing import IO

ROOT = Path(__file__).parents[2]


class WorkerError(Exception):
    """A worker that cannot be used, in one line."""


def environment(device: str, card: int) -> dict[str, str]:
    """The environment variables of a worker, which decide the one card that it sees.

    Raises:
        WorkerError: ``CUDA_VISIBLE_DEVICES`` names fewer cards.
    """
    variables = dict(os.environ)
    variables.pop("TRITON_INTERPRET", None)  # the worker decides by its device
    variables["PYTHONPATH"] = os.pathsep.join(
        [str(ROOT), *filter(None, [variables.get("PYTHONPATH")])]
    )
    limited = variables.get("CUDA_VISIBLE_DEVICES")
    if device != "cpu" and limited is None:
        variables["CUDA_VISIBLE_DEVICES"] = str(card)
    elif device != "cpu" and limited:  # empty hides every card, and is left so
        visible = limited.split(",")
        if card >= len(visible):
            raise WorkerError(f"card {card} is not among the {len(visible)} visible ones")
        variables["CUDA_VISIBLE_DEVICES"] = visible[card]
    # as NVML numbers them: the card that is locked must be the one that is timed
    variables["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"
    return variables


def process_of(device: str, card: int, log: Path, lock: int | None) -> subprocess.Popen[str]:
    """A new worker process; what it prints besides its answers goes to the end of ``log``.

    Args:
        device: ``cuda``, ``cpu`` or ``auto``.
        card: The one that it is to see.
        log: A file.
        lock: The descriptor of its card's lock, which it then holds as long as it lives.

    Raises:
        WorkerError: see `environment`.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as file:
        return subprocess.Popen(
            [sys.executable, "-m", "experiments.worker", "--device", device],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=file,
            text=True,
            env=environment(device, card),
            start_new_session=True,  # Ctrl-C is the parent's to handle
            pass_fds=() if lock is None else (lock,),
        )


def pump(pipe: IO[str], lines: queue.Queue[str | None]) -> None:
    """Moves a worker's lines into a queue, None at their end; runs in a thread of its own."""
    try:
        for line in pipe:
            lines.put(line)
    except ValueError:  # closed under us by stop()
        pass
    lines.put(None)


def ending(process: subprocess.Popen[str]) -> str:
    """How a process ended: the signal's name or the exit status."""
    try:
        code = process.wait(timeout=5)
    except subprocess.TimeoutExpired:
        return "it closed its pipe"
    if code < 0:
        return signal.Signals(-code).name
    return f"exit status {code}"
