"""The command line: ``python -m experiments.profile kernel=online grid=vocab``, for any profiler.

It takes the arguments of ``experiments.run`` and makes, for each point, one warm call, a flush of
L2, and one call inside an NVTX range named after the point, the profiler started and stopped around
it.
``ncu --nvtx --profile-from-start off`` and ``nsys profile --capture-range=cudaProfilerApi
--capture-range-end=none`` see those calls and nothing else. ``profiled.jsonl`` below ``out`` says
which range is which point.
"""

from __future__ import annotations

import runpy
import sys


def main() -> None:
    """Runs ``experiments.run`` with the launcher that profiles instead of the one that measures."""
    sys.argv.append("hydra/launcher=profile")
    # as a program, not as a module: Hydra looks for conf/ beside the program's own file
    runpy.run_module("experiments.run", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
