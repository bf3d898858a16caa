"""Rows of attention as an H200 might give them, and those of its roofs."""

from __future__ import annotations

from typing import Any

from experiments.data.rows import Row
from tests.analysis.plausible import row

M, LENGTHS = 262144, (512, 2048, 8192, 32768)
FLOPS, EXPONENTIALS, BYTES = 700e6, 4e6, 4.2e6  # a µs: of a matrix product, of ex2, and of DRAM
SLOWDOWN = {"attention_online": 1.55, "attention_torch": 1.05}  # over its products


def attention_rows(lengths: tuple[int, ...] = LENGTHS) -> list[Row]:
    """Two variants and their three roofs at every length."""
    found = []
    for n in lengths:
        flops, exponentials, moved = 512 * M * n, M * n, 2 * 512 * M

        def one(
            kernel: str, operation: str, time: float, n: int = n, moved: int = moved, **more: Any
        ) -> Row:
            own = {"rows": M, "dtype": "bfloat16", "operation": operation, "roof": operation}
            own |= {"compulsory_bytes": moved, "sweep": "attention"}
            return row(kernel, n, time_us=time, **own | more)

        work = {"flops": flops, "exponentials": exponentials, "roof": "attention_io"}
        found += [one(kernel, "attention", slower * flops / FLOPS, model_bytes=moved, **work)
                  for kernel, slower in SLOWDOWN.items()]  # fmt: skip
        found += [
            one("attention_io", "attention_io", moved / BYTES),
            one("matmul", "matmul", flops / FLOPS, flops=flops),
            one("exponentials", "exponentials", exponentials / EXPONENTIALS,
                exponentials=exponentials),
        ]  # fmt: skip
    return found
