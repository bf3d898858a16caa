"""A few rows, and declarations beside them, that tests change into odd ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from experiments.data.rows import Row
from tests.analysis.plausible import row

KERNELS = ("naive", "fused", "copy")
WIDTHS = (1024, 4096)


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
