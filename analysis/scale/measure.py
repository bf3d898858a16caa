"""``python -m analysis.scale.measure ROWS OUT``: one process that reads, tabulates and draws.

It prints one JSON object: seconds by step, of the clock and of all processors, and its peak memory.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from analysis.figures.specs import D_FIG1
from analysis.gallery import pictures
from analysis.load import read_inputs
from analysis.output import write_manifest
from analysis.tables import tables_of

T = TypeVar("T")


def measure(rows: Path, out: Path) -> dict[str, float]:
    """Loads ``rows``, writes the main table and D-fig1 below ``out``, and says what each took."""
    told: dict[str, float] = {}

    def timed(step: str, run: Callable[[], T]) -> T:
        begun, used = time.perf_counter(), time.process_time()
        made = run()
        told[f"{step}_s"] = time.perf_counter() - begun
        told[f"{step}_cpu_s"] = time.process_time() - used
        return made

    found = timed("load", lambda: read_inputs(rows, out, "scale"))

    def table() -> list[Path]:
        made, _ = tables_of(found, ("main",))
        return [path for one in made for path in one.files(out)]

    def figure() -> list[Path]:
        return [path for one in pictures(found, (D_FIG1,)) for path in one.plate.files(out)]

    made = timed("table", table) + timed("figure", figure)
    timed("manifest", lambda: write_manifest("scale", rows, out, made))
    told["rows"], told["files"] = len(found.frame), len(made)
    told["peak_bytes"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return told


if __name__ == "__main__":
    print(json.dumps(measure(Path(sys.argv[1]), Path(sys.argv[2]))))
