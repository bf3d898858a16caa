"""Measures kernels: sweeps, workers, rows. ``from experiments import bench, sweep``."""

from typing import Any

__all__ = ["bench", "sweep"]


def __getattr__(name: str) -> Any:
    """Imports `bench` and `sweep` on first use, so that the command lines start sooner."""
    if name in __all__:
        from experiments import api

        return getattr(api, name)
    raise AttributeError(f"module 'experiments' has no attribute {name!r}")
