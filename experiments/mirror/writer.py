"""A process that writes runs to W&B and says how far it is.

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
from pathlib import Path
from typing import Any

from experiments.mirror.media import media
from experiments.mirror.service import Say, channel, reason, settings

SPARE_BYTES = 1 << 20


def main() -> None:
    """Writes the plan's runs, one after the other."""
    plan = json.load(sys.stdin)
    say = channel()
    try:
        import wandb

        if plan["mode"] == "check":
            wandb.Api(timeout=10)
        for run in plan["runs"]:
            _write(plan, run, say)
        wandb.teardown()
        say(event="end")
    except BaseException as error:
        say(event="error", reason=reason(error))


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
        settings=settings(plan["finish_s"]),
    )
    say(event="started", id=content["id"])
    folder = Path(run.dir).parent
    first = run.starting_step if online else content["logged"]
    _log(run, content, first)
    if content["rows_file"] is not None:
        run.log_artifact(_rows_artifact(folder, content))
    run.finish(exit_code=content["exit_code"])
    # W&B says nothing about a run that it could not write to the end.
    if not any(folder.glob("*.wandb")) or shutil.disk_usage(folder).free < SPARE_BYTES:
        raise OSError(f"no room left to write {folder.name}")
    say(event="written", folder=folder.name)


def _rows_artifact(folder: Path, content: dict[str, Any]) -> Any:
    """The rows as they lie on disk, and the texts that analysis reads beside them."""
    import wandb

    artifact = wandb.Artifact(f"rows-{content['id']}", type="rows")
    for name in ("rows.jsonl", *content["beside"]):
        copy = folder / f"{Path(name).stem}.artifact"  # no rows file to whoever looks for those
        if name == "rows.jsonl":
            shutil.copyfile(content["rows_file"], copy)
        else:
            copy.write_text(content["beside"][name], encoding="utf-8")
        artifact.add_file(os.path.relpath(copy), name=name, policy="immutable", skip_cache=True)
    return artifact


def _log(run: Any, content: dict[str, Any], first: int) -> None:
    """Lines from step ``first`` on, over N; the summary is the headline, not the last line."""
    lines = content["lines"]
    for axis in ("cols", "rows", "round") if content["rows_file"] else ():
        run.define_metric(axis, summary="none")
    names = {name for line in lines if line for name in line if "/" in name}
    for series in sorted({name.split("/")[0] for name in names}):
        run.define_metric(f"{series}/*", step_metric="cols", summary="none")
    for step, line in enumerate(lines):
        if step >= first and line is not None:
            run.log(line | (media(run, content["media"], step) if step == 0 else {}), step=step)
    run.summary.update(content["summary"])


if __name__ == "__main__":
    main()
