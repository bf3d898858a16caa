"""What the processes that W&B lives in share: how they speak, and what they keep to themselves."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import Any

Say = Callable[..., None]


def channel() -> Say:
    """Speaks on what was standard output; nobody else in this process gets to."""
    lines = os.fdopen(os.dup(1), "w", encoding="utf-8")
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 1)
    os.dup2(silence, 2)

    def say(**message: Any) -> None:
        lines.write(json.dumps(message) + "\n")
        lines.flush()

    return say


def reason(error: BaseException) -> str:
    """What went wrong, in one line."""
    lines = [line for line in str(error).splitlines() if line.strip()]
    return lines[0].rstrip(".") if lines else type(error).__name__


def settings(finish_s: float) -> Any:
    """Silent, bounded in time, and without anything about host, user, path, code or arguments."""
    import wandb

    return wandb.Settings(
        root_dir=".",
        silent=True,
        console="off",
        symlink=False,
        init_timeout=10,
        finish_timeout=finish_s,
        finish_timeout_raises=True,
        x_service_wait=15,
        reinit="finish_previous",
        x_disable_meta=True,
        x_disable_stats=True,
        x_disable_machine_info=True,
        x_save_requirements=False,
        disable_git=True,
        disable_code=True,
        disable_job_creation=True,
        save_code=False,
        label_disable=True,
        host="",
        username="",
        email="",
        x_executable="",
    )
