"""Numbers of an interpreted call as its trace keeps them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

# The last bits of an exponential differ from machine to machine.
FIGURES = 7


def number(value: float) -> float | str:
    """A number to seven significant figures; what JSON has none for goes by its name: ``-inf``."""
    return float(f"{value:.{FIGURES}g}") if math.isfinite(value) else str(float(value))


def numbers(values: Iterable[float]) -> list[float | str]:
    """Each number of a row or block."""
    return [number(float(value)) for value in values]


def state_of(variables: Mapping[str, Any]) -> dict[str, Any]:
    """Scalars as numbers, blocks as lists of them, name by name."""
    return {
        name: numbers(value.ravel()) if isinstance(value, np.ndarray) else number(value)
        for name, value in variables.items()
    }
