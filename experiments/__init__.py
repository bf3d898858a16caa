"""Measures kernels: sweeps, workers, rows. ``from experiments import bench, sweep``."""

import sys
from typing import Any

__all__ = ["bench", "sweep"]


def interrupts_on_one_line() -> None:
    """Makes Ctrl-C print a line, not a traceback, until `errors.command` takes over."""

    def shown(kind: type[BaseException], error: BaseException, trace: Any) -> None:
        if issubclass(kind, KeyboardInterrupt):
            print("interrupted", file=sys.stderr)
        else:
            sys.__excepthook__(kind, error, trace)

    sys.excepthook = shown


def __getattr__(name: str) -> Any:
    """Imports `bench` and `sweep` on first use, so that the command lines start sooner."""
    if name in __all__:
        from experiments import api

        return getattr(api, name)
    raise AttributeError(f"module 'experiments' has no attribute {name!r}")
