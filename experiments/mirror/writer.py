"""The only file that imports W&B: a process that writes runs and says how far it is.

It reads a plan from its standard input (mode, project, entity, runs) and answers in lines of JSON:
``started`` and ``written`` for each run, then ``end``, or ``error`` with a reason, after which it
writes nothing more. ``mode=check`` only asks whether the server takes the key. It runs in the
sweep's folder and names files relative to it, so that an offline folder holds no path of this
machine and can be uploaded from another.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

Say = Callable[..., None]

SPARE_BYTES = 1 << 20


def main() -> None:
    """Writes the plan's runs, one after the other."""
    plan = json.load(sys.stdin)
    say = _channel()
    try:
        import wandb

        if plan["mode"] == "check":
            wandb.Api(timeout=10)
        for run in plan["runs"]:
            _write(plan, run, say)
        wandb.teardown()
        say(event="end")
    except BaseException as error:
        lines = [line for line in str(error).splitlines() if line.strip()]
        say(event="error", reason=lines[0].rstrip(".") if lines else type(error).__name__)


def _channel() -> Say:
    """Speaks on what was standard output; nobody else in this process gets to."""
    lines = os.fdopen(os.dup(1), "w", encoding="utf-8")
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 1)
    os.dup2(silence, 2)

    def say(**message: Any) -> None:
        lines.write(json.dumps(message) + "\n")
        lines.flush()

    return say


def _write(plan: dict[str, Any], content: dict[str, Any], say: Say) -> None:
    import wandb

    online = plan["mode"] == "online"
    run = wandb.init(
        project=plan["project"],
        entity=plan["entity"],
        id=content["id"],
        name=content["name"],
        group=content["group"],
        job_type=content["job_type"],
        config=content["config"],
        mode=plan["mode"],
        # Offline there is nobody to ask; the lines then carry the steps that follow the known ones.
        resume="allow" if online else None,
        settings=_settings(),
    )
    say(event="started", id=content["id"])
    folder = Path(run.dir).parent
    first = run.starting_step if online else content["logged"]
    _log(run, content, first)
    if content["rows_file"] is not None:
        copy = folder / "rows.artifact"  # no rows file to whoever looks for those
        shutil.copyfile(content["rows_file"], copy)
        artifact = wandb.Artifact(f"rows-{content['id']}", type="rows")
        artifact.add_file(
            os.path.relpath(copy), name="rows.jsonl", policy="immutable", skip_cache=True
        )
        run.log_artifact(artifact)
    run.finish(exit_code=content["exit_code"])
    # W&B says nothing about a run that it could not write to the end.
    if not any(folder.glob("*.wandb")) or shutil.disk_usage(folder).free < SPARE_BYTES:
        raise OSError(f"no room left to write {folder.name}")
    say(event="written", folder=folder.name)


def _log(run: Any, content: dict[str, Any], first: int) -> None:
    """Lines from step ``first`` on, over N; the summary is the headline, not the last line."""
    lines = content["lines"]
    for axis in ("cols", "rows", "round"):
        run.define_metric(axis, summary="none")
    names = {name for line in lines if line for name in line if "/" in name}
    for series in sorted({name.split("/")[0] for name in names}):
        run.define_metric(f"{series}/*", step_metric="cols", summary="none")
    for step, line in enumerate(lines):
        if step >= first and line is not None:
            run.log(line, step=step)
    run.summary.update(content["summary"])


def _settings() -> Any:
    """Silent, bounded in time, and without anything about host, user, path, code or arguments."""
    import wandb

    return wandb.Settings(
        root_dir=".",
        silent=True,
        console="off",
        symlink=False,
        init_timeout=10,
        finish_timeout=10,
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


if __name__ == "__main__":
    main()
