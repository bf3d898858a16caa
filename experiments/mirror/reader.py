"""A process that reads rows back from W&B and says how far it is.

It reads a plan from its standard input (entity, project, group or null, known digests by run,
folder to download into) and answers in lines of JSON: ``job`` for each run that has rows, with its
files where they are not known already, ``skipped`` with a reason for one that has none to be
trusted, then ``end``, or ``error`` with a reason. Of an artifact it takes the files that the mirror
puts there and no others, whatever else it holds.
"""

from __future__ import annotations

import json
import resource
import sys
from pathlib import Path
from typing import Any

from experiments.mirror.service import Say, channel, reason

FILES = ("rows.jsonl", "variants.json", "config.json")
LARGEST_BYTES = 256 << 20  # a row is about 10 KB with all its samples


def main() -> None:
    """Fetches what is new of a project, run by run."""
    plan = json.load(sys.stdin)
    say = channel()
    # Sizes that an artifact states are its own word; no file of this process grows beyond.
    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    resource.setrlimit(resource.RLIMIT_FSIZE, (LARGEST_BYTES, hard))
    try:
        import wandb

        api = wandb.Api(timeout=10)
        path = f"{plan['entity']}/{plan['project']}"
        filters = {"group": plan["group"]} if plan["group"] else {}
        for number, run in enumerate(api.runs(path, filters=filters, order="+created_at")):
            say(event="alive")
            if run.job_type != "analysis":
                _read(api, path, run, plan, Path(f"{plan['folder']}/{number}"), say)
        wandb.teardown()
        say(event="end")
    except BaseException as error:
        say(event="error", reason=reason(error))


def _read(api: Any, path: str, run: Any, plan: dict[str, Any], folder: Path, say: Say) -> None:
    """One run's rows; a server that fails on the way is an error of the whole."""
    told = {"id": run.id, "name": run.name, "group": run.group or ""}
    artifact = _latest(api, f"{path}/rows-{run.id}:latest")
    if artifact is None:
        return say(event="skipped", reason="it has no rows artifact", **told)
    if plan["known"].get(run.id) == artifact.digest:
        return say(event="job", digest=artifact.digest, folder=None, files=[], **told)
    entries = artifact.manifest.entries
    wanted = [entries[file] for file in FILES if file in entries]
    refusal = _refusal(wanted)
    if refusal is not None:
        return say(event="skipped", reason=refusal, **told)
    for entry in wanted:
        artifact.get_entry(entry.path).download(root=str(folder), skip_cache=True)
        say(event="alive")
    files = [str(entry.path) for entry in wanted]
    return say(event="job", digest=artifact.digest, folder=str(folder), files=files, **told)


def _latest(api: Any, name: str) -> Any | None:
    import wandb

    try:
        return api.artifact(name, type="rows")
    except (wandb.errors.CommError, ValueError) as error:
        # `artifact_exists` would say no to whatever else goes wrong, too.
        if "not found" in str(error):
            return None
        raise


def _refusal(entries: list[Any]) -> str | None:
    """Why files of an artifact are not to be had, None where they are."""
    if not any(entry.path == "rows.jsonl" for entry in entries):
        return "its artifact holds no rows.jsonl"
    for entry in entries:
        if entry.ref is not None:
            return f"its {entry.path} is not in the artifact but a reference elsewhere"
        if (entry.size or 0) > LARGEST_BYTES:
            return f"its {entry.path} is larger than {LARGEST_BYTES >> 20} MiB"
    return None


if __name__ == "__main__":
    main()
