"""Pictures, tables and pages as W&B shows them."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def media(run: Any, given: dict[str, Any], step: int) -> dict[str, Any]:
    """What ``run.log`` takes at ``step``; W&B keeps copies in the run's own folder.

    Args:
        run: The W&B run.
        given: ``images`` and ``pages``, paths by their key; ``tables``, their ``columns`` and
            ``data`` by their key.
        step: W&B's step, part of the copies' names.
    """
    import wandb

    shown: dict[str, Any] = {}
    for key, path in given.get("images", {}).items():
        shown[key] = wandb.Image(path)
    for key, path in given.get("pages", {}).items():
        shown[key] = wandb.Html(Path(path), inject=False)
    for key, cells in given.get("tables", {}).items():
        table = wandb.Table(columns=cells["columns"], data=cells["data"])
        # As a value: logged as an object, an artifact comes along that names its file by a path of
        # this machine, which could be uploaded from nowhere else.
        table.bind_to_run(run, key, step)
        shown[key] = table.to_json(run)
    return shown
