"""Rows of variants against themselves, with a noise that is known."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from experiments.data.records import PROBES as PROBES
from experiments.data.records import Probe, write_records
from experiments.data.rows import Row
from tests.analysis.plausible import row

TIMES_US = (4.0, 8.0, 15.0, 20.0, 30.0, 45.0, 60.0, 100.0, 150.0, 300.0, 900.0)
KERNELS = ("torch", "online", "fused_row")


def twins(
    *,
    rounds: int = 8,
    between: float = 0.002,
    within: float = 0.004,
    timers: Sequence[str] = ("events",),
    offset_us: float = 2.5,
    slower_b: float = 1.0,
    samples: int = 60,
    times_us: Sequence[float] = TIMES_US,
    kernels: Sequence[str] = KERNELS,
    seed: int = 0,
) -> list[Row]:
    """Rows of two twins of each kernel at each time.

    Args:
        rounds: Visits.
        between: Standard deviation of a round's own factor, a logarithm.
        within: The same of a sample.
        timers: Which time the points; events report ``offset_us`` more.
        offset_us: See ``timers``.
        slower_b: What the second twin's times are multiplied by.
        samples: Of each row.
        times_us: The true times.
        kernels: The variants.
        seed: Of the noise.
    """
    dice, made = random.Random(seed), []
    for timer in timers:
        for kernel in kernels:
            for i, true_us in enumerate(times_us):
                for twin, factor in (("a", 1.0), ("b", slower_b)):
                    for round_ in range(rounds):
                        middle = (true_us + offset_us * (timer == "events")) * factor
                        middle *= math.exp(dice.gauss(0, between))
                        taken = [middle * math.exp(dice.gauss(0, within)) for _ in range(samples)]
                        made.append(row(
                            f"{kernel}-{twin}", 1024, rows=1024 + i, round=round_, timer=timer,
                            samples_us=taken, time_us=median(taken), sweep="selftest",
                        ))  # fmt: skip
    return made


def probes(folder: Path, cold: float = 1.6, sizes: Sequence[int] = (1, 4, 16)) -> Path:
    """Probe records beside rows, cold reads ``cold`` times as long as warm ones."""
    made = []
    for mib in sizes:
        for timer in ("events", "graph"):
            for cache, factor in (("cold", cold), ("warm", 1.0)):
                time = (3.0 + mib / 4) * factor
                made.append(Probe(
                    kernel="probe", operation="read", params={}, source="0", rows=256 * mib,
                    cols=1024, dtype="float32", gpu="NVIDIA H200", timer=timer, cache=cache,
                    bytes=mib << 20, l2_bytes=60 << 20, flush_bytes=120 << 20, samples_us=[time],
                    time_us=time, time_low_us=0.99 * time, time_high_us=1.01 * time,
                    stop_reason="converged",
                ))  # fmt: skip
    write_records(folder / PROBES, made)
    return folder
