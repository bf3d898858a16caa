"""What a card's datasheet says, found by the name its driver gives it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from experiments.data.jobs import CONF, read_yaml


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


def card_of(gpu: str) -> Card:
    """The card whose ``match`` finds itself in the driver's name ``gpu``.

    A device that no file describes keeps its driver's name and has no facts.
    """
    return _card(description_of(gpu) or {"name": gpu})


def description_of(gpu: str) -> dict[str, Any] | None:
    """The file of the card that the driver calls ``gpu``, None where no file matches."""
    matching = (d for d in descriptions() if d.get("match") and re.search(d["match"], gpu))
    return next(matching, None)


@cache  # asked for each job of a sweep
def descriptions() -> tuple[dict[str, Any], ...]:
    """Every file of ``conf/gpu``, by name."""
    return tuple(read_yaml(CONF / "gpu").values())


def known_cards() -> list[Card]:
    """The cards with a memory bandwidth, fastest first."""
    known = [card for card in map(_card, descriptions()) if card.peak_gbps is not None]
    return sorted(known, key=lambda card: (-(card.peak_gbps or 0), card.name))


def _card(described: Mapping[str, Any]) -> Card:
    facts = described.get("facts") or {}
    return Card(described.get("name", ""), {name: fact["value"] for name, fact in facts.items()})
