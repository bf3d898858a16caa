"""How it is measured: sweeps, workers, rows. ``from experiments import bench, sweep``."""

from __future__ import annotations

from typing import Any

__all__ = ["bench", "sweep"]


def __getattr__(name: str) -> Any:
    """`bench` and `sweep`, imported where they are asked for: the command lines start sooner."""
    if name in __all__:
        from experiments import api

        return getattr(api, name)
    raise AttributeError(f"module 'experiments' has no attribute {name!r}")
