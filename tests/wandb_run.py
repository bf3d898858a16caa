"""A run as the stand-in of W&B's server keeps it."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any


@dataclass
class StoredRun:
    """One run as the server knows it after all requests."""

    fields: dict[str, Any] = field(default_factory=dict)
    lines: list[dict[str, Any] | None] = field(default_factory=list)
    summary: dict[str, Any] = field(default_factory=dict)
    exit_code: int | None = None
    artifacts: list[str] = field(default_factory=list)

    @property
    def config(self) -> dict[str, Any]:
        stored = json.loads(self.fields.get("config") or "{}")
        return {key: entry["value"] for key, entry in stored.items()}

    def history(self, metric: str) -> list[tuple[int, float]]:
        """N and a metric, line by line; a hole in the history fails here."""
        return [(line["cols"], line[metric]) for line in self.lines if metric in line]  # type: ignore[operator,index]
