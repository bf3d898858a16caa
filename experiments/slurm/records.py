"""The files by which the submitting side and the shards' jobs know of each other."""

from __future__ import annotations

import hashlib
import itertools
from pathlib import Path
from typing import Any

from experiments.sweep.folder import read_json, write_json

SHARDS = "shards.json"  # the latest request: which shards it has
ASKED = "asked.json"  # the submitting side's: the request, its token, the Slurm job
PLAN = "plan.json"  # the job's: its points, known once it has seen its card
END = "end.json"  # the job's: how it ended


def slurm_folder(out: Path) -> Path:
    """Where Slurm's files of a sweep lie; there are no rows below it."""
    return out / "slurm"


def shard_folder(out: Path, shard: str) -> Path:
    """A shard's own folder."""
    return slurm_folder(out) / "shards" / shard


def read(out: Path, shard: str, name: str) -> dict[str, Any]:
    """One of a shard's files, empty where it is not there."""
    return read_json(shard_folder(out, shard) / name)


def write(out: Path, shard: str, name: str, value: dict[str, Any]) -> None:
    """Writes one of a shard's files, as a whole or not at all."""
    write_json(shard_folder(out, shard) / name, value)


def card_number(out: Path, sweep: str, serial: str | None) -> int:
    """A card's number in a sweep: 0 for the first that any shard met, and so on.

    On a cluster every job sees its card as the first one, and rows of two cards must not compare.
    The number is given once, by a file that only one node can create; it tells nothing of the
    card's serial number without the card.
    """
    if serial is None:
        return 0
    mark = hashlib.sha256(f"{sweep}\0{serial}".encode()).hexdigest()[:16]
    cards = slurm_folder(out) / "cards"
    cards.mkdir(parents=True, exist_ok=True)
    for number in itertools.count():
        path = cards / str(number)
        try:
            with path.open("x") as file:
                file.write(mark)
            return number
        except FileExistsError:
            if path.read_text() == mark:
                return number
    raise AssertionError("unreachable")
