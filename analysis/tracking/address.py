"""Where rows lie in W&B: ``wandb:entity/project``, or ``wandb:entity/project/group``."""

from __future__ import annotations

import re
from dataclasses import dataclass

from experiments.data.rows import RowsError

PREFIX = "wandb:"
_NAME = re.compile(r"(?![.])[^/\\#?%:\x00-\x1f\x7f]{1,128}")


@dataclass(frozen=True)
class Address:
    """A project of an entity, or one group of its runs: one sweep."""

    entity: str
    project: str
    group: str | None

    def __str__(self) -> str:
        return PREFIX + "/".join(filter(None, (self.entity, self.project, self.group)))


def is_address(rows: object) -> bool:
    """Whether ``--rows`` names a place in W&B and no folder."""
    return str(rows).startswith(PREFIX)


def address(text: str) -> Address:
    """Reads an address.

    Raises:
        RowsError: it is none; the line says how one is written.
    """
    entity, project, group = [*text.removeprefix(PREFIX).split("/", 2), "", ""][:3]
    if not (_NAME.fullmatch(entity) and _NAME.fullmatch(project)):
        raise RowsError(
            f"--rows {text!r}: rows in W&B are named wandb:entity/project "
            "or wandb:entity/project/group"
        )
    return Address(entity, project, group or None)
