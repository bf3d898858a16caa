"""What a trace tells of each row so far: its statistics, and its probabilities as stored."""

from __future__ import annotations

import math
from typing import Any

from analysis.stepper.words import signed
from experiments.data.records import Access, Number, Trace

# a Triton program's variable, an eager operation's tensor
NAMES = {"maximum": ("maximum", "max.values"), "total": ("total", "sum")}


class RowTally:
    """Adds up the accesses of a trace, row by row."""

    def __init__(self, trace: Trace) -> None:
        self._cols = trace.cols
        self._own: dict[tuple[int, str], Number] = {}
        self._again: dict[tuple[int, str], Number] = {}
        self._stored: dict[int, dict[int, float]] = {}

    def add(self, access: Access) -> None:
        """Takes in one access more."""
        for key, again in (("maximum", access.maximum), ("total", access.total)):
            own = _own(access, *NAMES[key])
            if own is not None:
                self._own[access.row, key] = own
            if again is not None:
                self._again[access.row, key] = again
        if access.kind == "store" and access.tensor == "y":
            columns = range(access.first, access.last + 1)
            values = [float(value) for value in access.values or ()]
            self._stored.setdefault(access.row, {}).update(zip(columns, values, strict=True))

    def told(self, row: int) -> dict[str, Any]:
        """The row's numbers so far, None where one is not known; ``own`` names the kernel's.

        ``maximum`` and ``total`` of what was loaded; ``least``, ``greatest`` and ``sum`` of the
        probabilities stored, and once the row is complete its ``entropy`` −Σ p ln p, in nats;
        ``cells`` are all of these as text.
        """
        stored = list(self._stored.get(row, {}).values())
        entropy = -sum(p * math.log(p) for p in stored if p > 0)
        statistics = {key: self._own.get((row, key), self._again.get((row, key))) for key in NAMES}
        told = {
            **statistics,
            "least": min(stored, default=None),
            "greatest": max(stored, default=None),
            "sum": float(f"{sum(stored):.7g}") if stored else None,
            "entropy": float(f"{entropy:.7g}") if len(stored) == self._cols else None,
        }
        own = [key for key in NAMES if (row, key) in self._own]
        return told | {"own": own, "cells": [_cell(k, v, own) for k, v in told.items()]}


def _cell(key: str, value: Number | None, own: list[str]) -> str:
    if value is None:
        return ""
    digits = (
        f"{float(value):.4f}".rstrip("0").rstrip(".") if key == "maximum" else f"{float(value):.4f}"
    )
    return signed(digits) + ("†" if key in NAMES and key not in own else "")


def _own(access: Access, variable: str, tensor: str) -> Number | None:
    kept = (access.state or {}).get(variable)
    if kept is not None and not isinstance(kept, list):
        return kept
    if access.kind == "store" and access.tensor == tensor and access.values:
        return access.values[0]
    return None
