"""Rows of attention as an H200 might give them, and those of its roofs."""

from __future__ import annotations

from typing import Any

from experiments.data.rows import Row
from tests.analysis.plausible import row

M, LENGTHS = 262144, (512, 1024, 2048, 4096, 8192, 16384, 32768)
FLOPS, EXPONENTIALS, BYTES = 700e6, 4e6, 4.2e6  # a µs: of a matrix product, of ex2, and of DRAM
SLOWDOWN = {  # over what bounds it, its bytes or its arithmetic one after the other
    "attention_naive": 1.1, "attention_naive_folded": 1.1, "attention_online": 1.55,
    "attention_torch": 1.05, "attention_torch_flash": 1.5,
}  # fmt: skip


def attention_rows(lengths: tuple[int, ...] = LENGTHS, **changes: Any) -> list[Row]:
    """Each variant, its three roofs, and `auto` on the scores, at every length."""
    return [one for n in lengths for one in _at(n, changes)]


def _at(n: int, changes: dict[str, Any]) -> list[Row]:
    flops, exponentials, io, scores = 512 * M * n, M * n, 2 * 512 * M, 2 * M * n
    arithmetic = flops / FLOPS
    moved = {
        "attention_naive": 6 * scores + io, "attention_naive_folded": 4 * scores + io * 3 // 2,
        "attention_online": 512 * M * (-(-n // 64) + 1), "attention_torch": io,
        "attention_torch_flash": io,
    }  # fmt: skip
    found = []

    def add(kernel: str, operation: str, time: float, roof: str, **more: Any) -> None:
        own = {"rows": M, "dtype": "bfloat16", "operation": operation, "roof": roof}
        found.append(
            row(kernel, n, **own | {"time_us": time, "sweep": "attention"} | more | changes)
        )

    for kernel, size in moved.items():
        naive = "naive" in kernel
        time = SLOWDOWN[kernel] * (size / BYTES + arithmetic if naive else arithmetic)
        reads = (3 if kernel == "attention_naive" else 2) * M * n + 384 * M
        peak = 2 * 128 * M + (2 * scores if naive else 0)
        if kernel == "attention_online":
            reads = 256 * M * -(-n // 64) + 128 * M
        add(kernel, "attention", time, "attention_io", flops=flops, exponentials=exponentials,
            compulsory_bytes=io, model_bytes=size, peak_bytes=peak,
            model_reads=reads if naive or "online" in kernel else 384 * M, model_writes=128 * M,
            params={"softmax": None} if naive else {})  # fmt: skip
    add("attention_io", "attention_io", io / BYTES, "attention_io", compulsory_bytes=io)
    add("matmul", "matmul", arithmetic, "matmul", flops=flops, compulsory_bytes=io)
    add("exponentials", "exponentials", exponentials / EXPONENTIALS,
        "exponentials", exponentials=exponentials, compulsory_bytes=io)  # fmt: skip
    add("attention_values", "attention_values", 0.6 * arithmetic, "read", flops=flops // 2,
        compulsory_bytes=scores + io // 2)  # fmt: skip
    add("auto", "softmax", 2 * scores / BYTES, "copy", compulsory_bytes=2 * scores)
    return found
