"""Rows of a loss and its roof as a sweep of them gives: other bytes to move than softmax's 2MN."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from experiments.data.rows import Row
from tests.analysis.plausible import row

SHAPES = ((8192, 32000), (8192, 50257), (8192, 128256))


def loss(
    kernels: dict[str, float], shapes: Sequence[tuple[int, int]] = SHAPES, **changes: Any
) -> list[Row]:
    """Three rounds of each kernel in bfloat16, at the times that it takes, µs per MB of logits.

    M×N logits are read, and 12 bytes a row, or by the roof a number of each 4096.
    """
    made = []
    for m, n in shapes:
        for kernel, each in kernels.items():
            roof, size = kernel.startswith("read"), m * n * 2
            fields = {
                "operation": "read" if roof else "cross_entropy",
                "roof": "read",
                "rows": m,
                "dtype": "bfloat16",
                "time_us": each * size / 1e6,
                "compulsory_bytes": size + (-(-n // 4096) * m * 2 if roof else 12 * m),
                "model_formula": "MN",
                "peak_bytes": 4 * m,
                "key": f"{kernel}-{m}-{n}",
            }
            made += [row(kernel, n, **fields | {"round": i} | changes) for i in range(3)]
    return made
