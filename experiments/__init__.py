"""The measuring harness. ``from experiments import bench, sweep`` measures from Python."""

import sys
from typing import Any

__all__ = ["bench", "sweep"]


def _show(kind: type[BaseException], error: BaseException, trace: Any) -> None:
    """Prints an error of an import; of Ctrl-C and of a missing package in one line."""
    if issubclass(kind, KeyboardInterrupt):
        print("interrupted", file=sys.stderr)
    elif issubclass(kind, ModuleNotFoundError):
        print(f"error: {error}; run .venv/bin/python, which make test builds", file=sys.stderr)
    else:
        sys.__excepthook__(kind, error, trace)


if sys.argv[:1] == ["-m"]:  # Python is importing a command of this package
    sys.excepthook = _show


def __getattr__(name: str) -> Any:
    """Imports `bench` and `sweep` on first use, so that the command lines start sooner."""
    if name in __all__:
        from experiments import api

        return getattr(api, name)
    raise AttributeError(f"module 'experiments' has no attribute {name!r}")
