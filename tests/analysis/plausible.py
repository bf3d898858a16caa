"""Rows as an H200 might give them, built through the real model of a row."""

import json
import random
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from experiments.data.rows import Row

ENVIRONMENT = {
    "torch": "2.13.0",
    "triton": "3.7.1",
    "cuda": "13.0",
    "driver": "580.159.03",
    "python": "3.12.4",
    "commit": "0123456789abcdef0123456789abcdef01234567",
    "dirty": False,
}
# Matrix passes a variant makes, and the share of the roof that it loses besides.
PASSES = {
    "naive": (8, 0.10),
    "naive_script": (8, 0.02),
    "torch": (2, 0.33),
    "compiled": (2, 0.06),
    "three_pass": (4, 0.07),
    "fused": (2, 0.09),
    "fused_row": (2, 0.03),
    "hybrid": (2, 0.12),
    "online": (3, 0.05),
    "copy": (2, 0.0),
    "copy_triton": (2, 0.02),
}
KERNELS, WIDTHS = ("naive", "fused", "copy"), (1024, 4096)
PAPER = (256, 1024, 4096, 16384, 65536, 262144)
LOSS_SHAPES = ((8192, 32000), (8192, 50257), (8192, 128256))
ITEM = {"float32": 4, "float16": 2, "bfloat16": 2}


def row(kernel: str, cols: int, **changes: Any) -> Row:
    """One ok row at M = 4096 float32 on an H200, cold events; ``changes`` replace fields."""
    m, dtype = changes.get("rows", 4096), changes.get("dtype", "float32")
    passes, lost = PASSES.get(kernel, (2, 0.15))
    size = m * cols * ITEM[dtype]
    seed = random.Random(f"{kernel} {cols} {m} {dtype} {changes.get('round', 0)}")
    bandwidth = 4.25e3 / (1 + 250 / max(cols, 1)) * (1 - lost) * seed.uniform(0.985, 1.0)
    time = changes.get("time_us", 3.2 + passes * size / bandwidth / 1e3)
    times = {"time_low_us": None, "time_high_us": None, "timer": "events", "cache": "cold"}
    if time is not None:
        times |= {"time_low_us": time * 0.99, "time_high_us": time * 1.01}
    fields: dict[str, Any] = {
        "key": f"{kernel}-{cols}-{m}-{dtype}-{changes.get('gpu', '')}-{changes.get('timer', '')}",
        "card": 0,
        "round": 0,
        "attempt": 1,
        "sweep": "paper",
        "operation": "copy" if kernel.startswith("copy") else "softmax",
        "kernel": kernel,
        "params": {},
        "rows": m,
        "cols": cols,
        "dtype": dtype,
        "status": "ok",
        "device": "cuda",
        "gpu": "NVIDIA H200",
        "backend": "triton",
        "environment": ENVIRONMENT,
        "time_us": time,
        "compulsory_bytes": 2 * size,
        "model_bytes": passes * size,
    }
    return Row.model_validate(fields | times | changes)


def timed(kernel: str, *times_us: float, cols: int = 1024, **changes: Any) -> list[Row]:
    """The rows of a point, a round each."""
    return [row(kernel, cols, time_us=us, round=i, **changes) for i, us in enumerate(times_us)]


def point(cols: int = 4096, timer: str = "events", **times_us: float) -> list[Row]:
    """Three rounds of kernels at one shape, at the time that each takes."""
    each = [timed(name, us, us, us, cols=cols, timer=timer) for name, us in times_us.items()]
    return [one for rows in each for one in rows]


def loss(
    kernels: dict[str, float], shapes: Sequence[tuple[int, int]] = LOSS_SHAPES, **changes: Any
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


def unsupported(kernel: str, cols: int, **changes: Any) -> Row:
    """A row of a variant that cannot run there."""
    outcome = {"status": "unsupported", "reason": "the row does not fit on chip"}
    return row(kernel, cols, time_us=None, **outcome, **changes)


def interpreted(kernel: str, cols: int, **changes: Any) -> Row:
    """A row that proves correctness under Triton's interpreter and has no time."""
    place = {"device": "cpu", "gpu": "A CPU", "backend": "interpreter"}
    nothing: dict[str, Any] = dict.fromkeys(("time_us", "timer", "cache"))
    return row(kernel, cols, **place | nothing | changes)


def paper(widths: Iterable[int] = PAPER) -> list[Row]:
    """Every variant at every width, on-chip variants unsupported where a row is too wide."""
    short = {"fused": 32768, "fused_row": 131072}
    return [
        row(kernel, n) if n <= short.get(kernel, n) else unsupported(kernel, n)
        for kernel in PASSES
        for n in widths
    ]


def write(folder: Path, rows: Iterable[Row]) -> Path:
    """Rows in one file below ``folder``; returns the folder."""
    path = folder / "rows.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(r.model_dump_json() + "\n" for r in rows), encoding="utf-8")
    return folder


def few(**changes: Any) -> list[Row]:
    """Enough to draw lines from: three kernels at two widths."""
    return [row(kernel, n, **changes) for kernel in KERNELS for n in WIDTHS]


def declare(folder: Path, **changes: str) -> None:
    """``variants.json`` of naive and fused, with changes."""
    measured = {
        "naive": {"reads": "5MN + 2M", "writes": "3MN + 2M", "formula": "8MN + 4M", "on_chip": "1"},
        "fused": {"reads": "MN", "writes": "MN", "formula": "2MN", "on_chip": "N"},
    }
    rest = {"target": "x", "operation": "softmax", "backend": "triton", "params": {},
            "source": "0123456789abcdef", "idea": "An idea.", "latex": "2 M N"}  # fmt: skip
    whole = {name: rest | {"kernel": name} | own | changes for name, own in measured.items()}
    (folder / "variants.json").write_text(json.dumps(whole))
