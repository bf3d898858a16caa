"""What tests of ``compare`` run, and read back."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from analysis.__main__ import main
from experiments.data.rows import Row
from tests.analysis.plausible import write
from tests.analysis.rounded import normal, rounded_rows

KERNELS = ("naive", "fused", "copy")
WIDTHS = (1024, 4096)


def rounds(seed: int, slow: dict[str, float] | None = None, **changes: Any) -> list[Row]:
    """Three kernels at two widths in eight rounds; ``slow`` makes a kernel slower by a factor."""
    dice, rows = np.random.default_rng(seed), []
    for kernel in KERNELS:
        for width in WIDTHS:
            time = 50 * width / 1024 * (slow or {}).get(kernel, 1.0)
            times = [float(t) for t in time * np.exp(normal(dice, 8))]
            rows += rounded_rows(kernel, width, times, **changes)
    return rows


def run(tmp_path: Path, base: list[Row], head: list[Row], *arguments: str) -> int:
    """The exit status of ``compare`` with these rows in folders of their own."""
    folders = [str(write(tmp_path / name, rows)) for name, rows in (("a", base), ("b", head))]
    return main(["compare", *folders, "--out", str(tmp_path / "out"), *arguments])


def lines(tmp_path: Path) -> list[dict[str, str]]:
    """The table it wrote."""
    with (tmp_path / "out" / "compare.csv").open() as file:
        return list(csv.DictReader(file))


def told(capsys: pytest.CaptureFixture[str]) -> str:
    """What it said."""
    return capsys.readouterr().out


def refused(status: int, capsys: pytest.CaptureFixture[str]) -> str:
    """The one line of a comparison that was refused."""
    assert status == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert error.count("\n") == 1
    return error
