"""Rows as the preset `limits` might give them on an H200: every kernel, both timers, rounds."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence

from experiments.data.rows import Row
from tests.analysis.plausible import ITEM, row

QUACK = [(32768, 256 * 2**k) for k in range(9)] + [(16384, 131072), (8192, 262144)]
DTYPES = ("float32", "float16", "bfloat16")
FEWER = [(4096, 1024), (4096, 65536), (1, 131072), (64, 131072)]
OVER_COPY = {"copy": 1.0, "copy_triton": 1.02, "auto": 1.03, "torch": 1.6, "compiled": 1.2,
             "liger": 1.25, "flag_gems": 1.3, "quack": 1.1}  # fmt: skip


def limits(
    shapes: Iterable[tuple[int, int]],
    dtypes: Sequence[str] = DTYPES,
    timers: Sequence[str] = ("events", "graph"),
    rounds: int = 3,
) -> list[Row]:
    """Rows with samples; rows of `liger` beyond 64K columns say that it refuses them."""
    return [
        _row(kernel, m, n, {"rows": m, "dtype": dtype, "timer": timer, "round": visit})
        for m, n in shapes
        for dtype in dtypes
        for timer in timers
        for kernel in OVER_COPY
        for visit in range(rounds)
    ]


def _row(kernel: str, m: int, n: int, place: dict[str, object]) -> Row:
    named = place | {
        "sweep": "limits",
        "key": f"{kernel}-{m}-{n}-{place['dtype']}-{place['timer']}",
    }
    if kernel == "liger" and n > 65536:
        reason = "Liger refuses rows of more than 65536 columns"
        return row(kernel, n, time_us=None, status="unsupported", reason=reason, **named)
    dice = random.Random(f"{kernel} {place}")
    time = OVER_COPY[kernel] * (4 + 2 * m * n * ITEM[str(place["dtype"])] / 4.3e6)
    samples = sorted(round(time * dice.gauss(1, 0.003), 3) for _ in range(51))
    return row(kernel, n, time_us=samples[25], samples_us=samples, **named)
