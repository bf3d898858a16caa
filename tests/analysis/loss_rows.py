"""Rows of a loss and its roof as a sweep of them gives: other bytes to move than softmax's 2MN."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from experiments.data.rows import Row
from tests.analysis.plausible import ITEM, row

LOSS, ROOF = "cross_entropy", "read"
SHAPES = ((8192, 32000), (8192, 50257), (8192, 128256))


def loss(
    kernels: dict[str, float], shapes: Sequence[tuple[int, int]] = SHAPES, **changes: Any
) -> list[Row]:
    """Three rounds of each kernel at the times that it takes, µs per MB of logits."""
    return [
        one(name, m, n, each * m * n * ITEM[changes.get("dtype", "bfloat16")] / 1e6, i, **changes)
        for m, n in shapes
        for name, each in kernels.items()
        for i in range(3)
    ]


def one(kernel: str, m: int, n: int, time_us: float, visit: int = 0, **changes: Any) -> Row:
    """A row: M×N logits are read, and 12 bytes a row, or by the roof a number of each 4096."""
    moves = kernel.startswith(ROOF)
    size = m * n * ITEM[changes.get("dtype", "bfloat16")]
    fields: dict[str, Any] = {
        "operation": ROOF if moves else LOSS,
        "roof": ROOF,
        "rows": m,
        "dtype": "bfloat16",
        "round": visit,
        "time_us": time_us,
        "compulsory_bytes": size + (-(-n // 4096) * m * 2 if moves else 12 * m),
        "model_formula": "MN",
        "peak_bytes": 4 * m,
        "key": f"{kernel}-{m}-{n}",
    }
    return row(kernel, n, **fields | changes)
