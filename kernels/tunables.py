"""Checks of tunables. Their values come from YAML or a command line, so any type can turn up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def check_power_of_two(name: str, value: Any, least: int, most: int) -> None:
    """Refuses all but a power of two from ``least`` to ``most``.

    Raises:
        ValueError: in one line, what it is and what it must be.
    """
    whole = isinstance(value, int) and not isinstance(value, bool)
    if not (whole and least <= value <= most and value & (value - 1) == 0):
        raise ValueError(f"{name} must be a power of two from {least} to {most}, not {value!r}")


def check_count(name: str, value: Any, least: int, most: int) -> None:
    """Refuses all but a whole number from ``least`` to ``most``.

    Raises:
        ValueError: in one line, what it is and what it must be.
    """
    whole = isinstance(value, int) and not isinstance(value, bool)
    if not (whole and least <= value <= most):
        raise ValueError(f"{name} must be a whole number from {least} to {most}, not {value!r}")


def check_flag(name: str, value: Any) -> None:
    """Refuses all but true, false and None.

    Raises:
        ValueError: in one line, what it is and what it must be.
    """
    if not (value is None or isinstance(value, bool)):
        raise ValueError(f"{name} must be true, false or null, not {value!r}")


def check_choice(name: str, value: Any, choices: Sequence[str]) -> None:
    """Refuses all but one of ``choices``.

    Raises:
        ValueError: in one line, what it is and what it may be.
    """
    if value not in choices:
        raise ValueError(f"{name} must be {' or '.join(choices)}, not {value!r}")
