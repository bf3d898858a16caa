"""What a card's datasheet says, found by the name its driver gives it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import yaml

GPU_FILES = Path(__file__).resolve().parents[2] / "conf" / "gpu"


@dataclass(frozen=True)
class Card:
    """A card and its datasheet.

    Attributes:
        name: As people write it.
        facts: Figures by name, the unit in the name, e.g. ``memory_gbps``.
    """

    name: str
    facts: Mapping[str, float] = field(default_factory=dict)

    @property
    def peak_gbps(self) -> float | None:
        """Peak memory bandwidth, GB/s (1e9)."""
        return self.facts.get("memory_gbps")

    @property
    def l2_bytes(self) -> float | None:
        """L2 cache, bytes."""
        size = self.facts.get("l2_mib")
        return None if size is None else size * 2**20


def card_of(gpu: str, folder: Path = GPU_FILES) -> Card:
    """The card whose ``match`` finds itself in the driver's name ``gpu``.

    A device that no file describes keeps its driver's name and has no facts.
    """
    described = description_of(gpu, folder)
    if described is None:
        return Card(gpu)
    facts = described.get("facts") or {}
    return Card(described["name"], {name: fact["value"] for name, fact in facts.items()})


@cache  # for each job of a sweep, and all files are read to find one
def description_of(gpu: str, folder: Path = GPU_FILES) -> dict[str, Any] | None:
    """The file of the card that the driver calls ``gpu``, None where no file matches."""
    for path in sorted(folder.glob("*.yaml")):
        described: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
        match = described.get("match")
        if match and re.search(match, gpu):
            return described
    return None
