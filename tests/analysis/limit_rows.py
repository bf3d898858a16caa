"""Rows as the preset `limits` might give them on an H200: every kernel, both timers, rounds."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Sequence
from typing import Any

from experiments.data.rows import Row
from tests.analysis.plausible import ITEM, row

QUACK = [(32768, 256 * 2**k) for k in range(9)] + [(16384, 131072), (8192, 262144)]
WIDE = [(4096, 256 * 4**k) for k in range(6)]
BATCH = [(m, 32000) for m in (1, 4, 16, 64, 512, 2048, 8192, 32768)]
FEW = [(m, 2**k) for m in (1, 8, 64) for k in range(15, 21)]
SHAPES = [*QUACK, *WIDE, *BATCH, *FEW]
DTYPES = ("float32", "float16", "bfloat16")
FEWER = [(4096, 1024), (4096, 65536), (1, 131072), (64, 131072)]  # for tests that need no more
# Share of the copy's time that a kernel takes more, where rows fit it and where they do not, and
# the columns up to which they do; µs it adds where one row is all there is.
KERNELS = {
    "copy": (0.0, 0.0, 2**30, 0.0),
    "copy_triton": (0.02, 0.02, 2**30, 0.3),
    "auto": (0.01, 0.06, 2**18, 1.2),
    "torch": (0.4, 1.05, 2**14, 38.0),
    "compiled": (0.03, 0.6, 2**14, 16.0),
    "compiled_max": (0.02, 0.55, 2**14, 15.0),
    "liger": (0.03, 0.55, 2**15, 60.0),
    "flag_gems": (0.06, 0.5, 2**14, 70.0),
    "quack": (0.025, 0.09, 2**17, 5.0),
}
OURS = ("cluster", "cooperative", "fused_multirow", "online", "online_l2", "fused_row")


def limits(
    shapes: Iterable[tuple[int, int]] = SHAPES,
    kernels: Sequence[str] = tuple(KERNELS),
    dtypes: Sequence[str] = DTYPES,
    timers: Sequence[str] = ("events", "graph"),
    rounds: int = 3,
    **changes: Any,
) -> list[Row]:
    """Rows with samples; rows of `liger` beyond 64K columns say that it refuses them."""
    made = []
    for m, n in shapes:
        for dtype in dtypes:
            for timer in timers:
                for kernel in kernels:
                    made += [
                        _row(kernel, m, n, dtype, timer, visit, changes) for visit in range(rounds)
                    ]
    return made


def _row(
    kernel: str, m: int, n: int, dtype: str, timer: str, visit: int, changes: dict[str, Any]
) -> Row:
    key = f"{kernel}-{m}-{n}-{dtype}-{timer}"
    fields: dict[str, Any] = {"rows": m, "dtype": dtype, "timer": timer, "round": visit,
                            "sweep": "limits", "key": key}  # fmt: skip
    if kernel == "liger" and n > 65536:
        reason = "Liger refuses rows of more than 65536 columns"
        return row(kernel, n, time_us=None, status="unsupported", reason=reason, **fields)
    dice = random.Random(f"{kernel} {m} {n} {dtype} {timer} {visit}")
    samples = [
        round(time_us(kernel, m, n, dtype, timer) * dice.gauss(1, 0.003), 3) for _ in range(50)
    ]
    middle = sorted(samples)[25]
    ends = {"time_low_us": middle * 0.999, "time_high_us": middle * 1.001, "samples_us": samples}
    launch = {"programs": m, "warps": 4} if kernel == "auto" else {}
    return row(kernel, n, **fields | launch | {"time_us": middle} | ends | changes)


def time_us(kernel: str, m: int, n: int, dtype: str, timer: str = "events") -> float:
    """What it would take by this page's table."""
    fits, beyond, widest, alone = KERNELS.get(kernel, (0.08, 0.5, 2**15, 20.0))
    moved = 2 * m * n * ITEM[dtype]
    copy = (4.5 if timer == "events" else 2.0) + moved / 4.3e6
    past = min(max(math.log2(n / widest) / 2, 0.0), 1.0)
    return copy * (1 + fits + past * (beyond - fits)) + alone / math.sqrt(m) * (n / 131072)
