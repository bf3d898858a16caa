"""Numbers of a row that may be missing."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any


def number(row: Mapping[str, Any], name: str) -> float | None:
    """A row's number, None where it is null, NaN or absent."""
    value = row.get(name)
    if value is None or math.isnan(float(value)):
        return None
    return float(value)
